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

/// The counts of a capacity, of one moment.
struct group_counts {
  channel_load used;
  std::size_t channels = 0;
  std::size_t senders = 0;
};

/// The engine of the channels that share a capacity. A channel with a capacity of its own has an engine for itself.
///
/// One lock guards all of them. So a value moves in the step that makes room for it. In that step a receiver takes one,
/// the value of the first sender comes in, and the first receiver of its channel is told. No code of users runs under
/// the lock.
///
/// A channel whose first sender lacks only shared room has a seat. Seats go by class. Inside a class each channel gets
/// the same share, by start-time fair queueing as in fair_queue. A value moves the seat of its channel back by its part
/// of the capacity. However large its value is, the first seat is overtaken only by values that need nothing but room
/// that is reserved for their channel.
class channel_group final : public delivery {
 public:
  /// The caller gets a reference.
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

  /// Makes room for seats of so many classes.
  void make_room_for(int priorities);
  /// Room was reserved for another channel: senders of the others may wait for room that will never be free.
  void end_too_large() noexcept;
  /// The room of `c`, or its first sender, is another one now.
  void serve(channel_core& c) noexcept;
  void seat_anew(channel_core& c) noexcept;
  void let_in(channel_core& c) noexcept;
  void let_in_reserved(channel_core& c) noexcept;
  void conclude(channel_waiter& w, outcome o) noexcept;
  void end(channel_waiter& w, outcome o) noexcept;

  shared_room room_;
  bool is_short_ = false;  // channels may lack room that is reserved for them
  std::uint64_t virtual_time_ = 0;
  std::vector<channel_core*> channels_;
  std::unique_ptr<wait_queue> seats_;
};

}  // namespace canigo::detail
