#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/channel/channel_group.hpp"
#include "canigo/detail/channel/channel_value.hpp"
#include "canigo/detail/channel/channel_waiter.hpp"
#include "canigo/detail/queue/channel_room.hpp"
#include "canigo/detail/queue/wait_queue.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace canigo::detail {

/// The options of a channel without its type, checked.
struct channel_terms {
  channel_load limit;
  channel_load reserved;
  int priorities = 1;
  std::size_t queue_limit = 0;
  std::shared_ptr<const std::string> name = {};
};

/// The counts of a channel, of one moment.
struct channel_counts {
  channel_load used;
  std::size_t senders = 0;
  std::size_t receivers = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t refused = 0;
};

/// A channel without its type: values, callers that wait for room, callers that wait for a value.
///
/// The lock of its group guards it. A receiver whose turn it is has a value promised, but none bound. When it goes on,
/// it takes the most important one that is there then. So a receiver that is destroyed meanwhile loses none.
///
/// It lives until its handle is gone and no value is promised any more.
class channel_core {
 public:
  /// Takes a reference of `group` over.
  ///
  /// Errors: errc::invalid_argument if `t.reserved` is more than the group has unassigned.
  static channel_core* open(channel_group& group, const channel_terms& t);
  /// The handle is gone: ends all who wait, and drops the values that are promised to no receiver.
  void abandon() noexcept;

  channel_group& group() const noexcept { return group_; }

  /// Takes `n` in, with this class and its `tokens` as bytes, if that needs no wait. Otherwise `n` stays.
  outcome try_send(owned_node& n, int priority) noexcept;
  /// Like try_send(), and lets `w`, which has the value, wait for room. Ends by a post, always.
  void send(channel_waiter& w, int priority) noexcept;
  /// The most important value, if one is there that is promised to no receiver. Otherwise nullptr, and `why`.
  owned_node try_receive(outcome& why) noexcept;
  /// Lets `w` wait until a value is promised to it. Ends by a post, always.
  void receive(channel_waiter& w) noexcept;
  /// Takes the value that was promised to a receiver. Then done() must follow.
  owned_node take_promised() noexcept;
  /// Takes back the node of such a value. This may be gone then.
  void done(owned_node n) noexcept;
  /// This stays from hold() to let_go().
  void hold() noexcept;
  void let_go() noexcept;
  /// The receiver that has a promise takes no value. This may be gone then.
  void drop_promise() noexcept;
  /// Ends `w`, which did not come to wait, by a post.
  void fail(channel_waiter& w, outcome o) noexcept;

  /// Senders end with errc::closed, and so do receivers once no value is left.
  void close() noexcept;
  bool is_closed() const noexcept;

  /// Whether a coroutine that never waits is to pass through the event loop, for the sake of other handlers.
  bool takes_turn() noexcept {
    const unsigned n = calls_.load(std::memory_order_relaxed) + 1u;
    calls_.store(n > calls_in_a_row ? 0 : n, std::memory_order_relaxed);
    return n > calls_in_a_row;
  }
  /// A node to be filled; nullptr: make one.
  owned_node spare_node() noexcept { return nodes_.take(); }
  void keep_node(owned_node n) noexcept { nodes_.give_back(std::move(n)); }
  channel_counts counts() const noexcept;
  const channel_load& limit() const noexcept { return limit_; }
  const std::shared_ptr<const std::string>& name() const noexcept { return name_; }
  /// Throws for a value that can never be sent, naming what is wrong.
  void check(std::uint64_t bytes, int priority) const;
  std::exception_ptr why_wrong(std::uint64_t bytes, int priority) const noexcept;

 private:
  friend class channel_group;
  /// Its place among the channels that wait for shared room.
  struct seat : wait_node {
    explicit seat(channel_core& c) noexcept : owner{&c} {}
    channel_core* owner;
  };
  static constexpr unsigned calls_in_a_row = 128;

  channel_core(channel_group& group, const channel_terms& t);
  ~channel_core() = default;
  outcome enter(owned_node& n, int priority) noexcept;
  void take_in(channel_node& n) noexcept;
  void serve_receivers() noexcept;
  owned_node take_first() noexcept;
  channel_waiter* first_sender() const noexcept {
    return static_cast<channel_waiter*>(senders_.first_of_most_important());
  }
  void end_senders(outcome o) noexcept;
  void end_receivers(outcome o) noexcept;
  void drop_unpromised(node_list& dropped) noexcept;
  void leave_group() noexcept;
  static void end_of(channel_core& c) noexcept;

  channel_group& group_;
  channel_room room_;
  const channel_load limit_;
  const int priorities_;
  const std::size_t queue_limit_;
  wait_queue values_;
  wait_queue senders_;
  wait_queue receivers_;
  seat seat_;
  std::uint64_t tag_ = 0;               // the virtual time from which its next value competes
  std::size_t index_ = 0;               // among the channels of the group
  std::size_t promised_ = 0;            // values
  std::size_t in_hand_ = 0;             // reasons to stay: each receiver with a promise, and each hold()
  outcome ended_ = outcome::must_wait;  // otherwise: how senders and receivers end
  bool has_handle_ = true;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t refused_ = 0;
  atomic<unsigned> calls_{0};
  channel_nodes nodes_;
  const std::shared_ptr<const std::string> name_;
};

}  // namespace canigo::detail
