#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/channel/channel_call.hpp"
#include "canigo/detail/context/delivery.hpp"
#include "canigo/detail/queue/channel_room.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace canigo::detail {

class channel_core;

/// The counts of a shared capacity at one instant.
struct group_counts {
  channel_load used;
  std::size_t channels = 0;
  std::size_t senders = 0;
};

/// The engine of all channels that share a capacity. A channel with its own capacity has an engine for itself.
///
/// One lock guards all of these channels. So when a receiver takes a value, the same step lets in the value of the
/// first sender, and wakes the first receiver of that sender's channel. No user code runs under the lock.
///
/// A channel is registered for shared room if its first sender lacks only shared room. Registered channels are served
/// by the class of their first sender. Inside a class each channel gets the same share, by start-time fair queueing as
/// in fair_queue. Each value that enters moves its channel back in this order, by the part of the capacity that the
/// value takes. The first registered channel is never overtaken for shared room, however large its value is. Only a
/// value that fits into the reserved room of its own channel may enter before the value of the first channel.
class channel_group final : public delivery {
 public:
  /// Returns a new group with one reference, which the caller must release.
  static channel_group* open(const net::any_io_executor& executor, const channel_load& limit);

  group_counts counts() const noexcept;
  channel_load limit() const noexcept { return room_.limit(); }
  void cancel(channel_waiter& w) noexcept;

 private:
  friend class channel_core;
  friend class channel_waiter;
  channel_group(const net::any_io_executor& executor, const channel_load& limit);
  ~channel_group() override = default;
  void let_go_of_context() noexcept override;
  void end_with_context() noexcept override;

  /// Allocates the queues for this number of priority classes.
  void make_room_for(int priorities);
  /// Ends the wait of each sender whose value can never fit any more. Call it when room was reserved for a new channel,
  /// because less room is then left for the other channels.
  void end_too_large() noexcept;
  /// Whether senders may wait for room. If true, serve() must be called when the free room of `c` has grown.
  bool has_waiting(const channel_core& c) const noexcept;
  /// Lets in the values of waiting senders as far as there is room. Call it when the free room of `c`, or its first
  /// sender, has changed.
  void serve(channel_core& c) noexcept;
  void seat_anew(channel_core& c) noexcept;
  void let_in(channel_core& c) noexcept;
  void let_in_reserved(channel_core& c) noexcept;
  void conclude(channel_waiter& w, outcome o) noexcept;
  void end(channel_waiter& w, outcome o) noexcept;

  shared_room room_;
  bool is_short_ = false;  // whether values may still occupy room that was later reserved for another channel
  std::uint64_t virtual_time_ = 0;
  std::vector<channel_core*> channels_;
  std::unique_ptr<wait_queue> seats_;
};

}  // namespace canigo::detail
