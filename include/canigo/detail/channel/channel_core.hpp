#pragma once

#include "canigo/detail/admission/waiter.hpp"
#include "canigo/detail/channel/channel_call.hpp"
#include "canigo/detail/channel/channel_group.hpp"
#include "canigo/detail/queue/channel_room.hpp"
#include "canigo/detail/queue/wait_queue.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace canigo::detail {

/// The options of a channel, after they were checked. They do not depend on the value type.
struct channel_terms {
  channel_load limit;
  channel_load reserved;
  int priorities = 1;
  std::size_t queue_limit = 0;
  std::shared_ptr<const std::string> name = {};
};

/// A list of nodes that are destroyed later, when no lock is held.
class node_list {
 public:
  node_list() = default;
  node_list(const node_list&) = delete;
  node_list& operator=(const node_list&) = delete;
  ~node_list() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next_);
  }
  void push(channel_node& n) noexcept { n.next_ = std::exchange(first_, &n); }

 private:
  channel_node* first_ = nullptr;
};

/// The engine of a channel, which does not depend on the value type. It holds the values, the waiting senders and the
/// waiting receivers.
///
/// The lock of the channel's group guards this object. When it is a receiver's turn, the receiver is promised a value,
/// but no particular one. When the receiver resumes, it takes the value that is then the most important one. So if the
/// receiver is destroyed before it resumes, no value is lost.
///
/// A channel_core keeps empty nodes for reuse. So it allocates only when it holds more values than ever before. A
/// receiver gives its node back under the lock, and moves the value out of the node after that. So a kept node may
/// still hold a value.
///
/// A channel_core lives until its handle is destroyed and no value is promised any more.
class channel_core final : public channel_port {
 public:
  /// Creates a channel. The channel takes over one reference to `group`.
  ///
  /// Errors: errc::invalid_argument if `t.reserved` exceeds the unassigned room of the group.
  static channel_core* open(channel_group& group, const channel_terms& t);

  channel_group& group() const noexcept { return group_; }
  const net::any_io_executor& executor() const noexcept override { return group_.executor(); }
  void abandon() noexcept override;
  void keep_node(owned_node n) noexcept override;
  outcome try_send(owned_node& n, int priority) noexcept override;
  void send(channel_waiter& w, int priority) noexcept override;
  channel_node* try_receive(outcome& why) noexcept override;
  void receive(channel_waiter& w) noexcept override;
  channel_node& take_promised() noexcept override;
  void fail(channel_waiter& w, outcome o) noexcept override;
  void close() noexcept override;
  bool is_closed() const noexcept override;
  channel_counts counts() const noexcept override;
  const std::shared_ptr<const std::string>& name() const noexcept override { return name_; }
  void hold() noexcept override;
  void let_go() noexcept override;

  /// Called if a receiver was promised a value and does not take it. This object may be destroyed during the call.
  void drop_promise() noexcept;
  /// Throws for a value that can never be sent; the message names the reason.
  void check(std::uint64_t bytes, int priority) const;
  std::exception_ptr why_wrong(std::uint64_t bytes, int priority) const noexcept;

 private:
  friend class channel_group;
  /// The entry of this channel in the queue of channels that wait for shared space of the group.
  struct seat : wait_node {
    explicit seat(channel_core& c) noexcept : owner{&c} {}
    channel_core* owner;
  };

  channel_core(channel_group& group, const channel_terms& t);
  ~channel_core();
  owned_node other_spare_node(owned_node busy) noexcept override;
  void give_back(channel_node& n) noexcept;
  void refill() noexcept;
  outcome enter(owned_node& n, int priority) noexcept;
  void take_in(channel_node& n) noexcept;
  void serve_receivers() noexcept;
  channel_node& take_first() noexcept;
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
  std::uint64_t tag_ = 0;     // the channel's virtual time; in each class, the channel with the smallest tag goes first
  std::size_t index_ = 0;     // the index of this channel in the group
  std::size_t promised_ = 0;  // number of values promised to receivers
  // number of references that keep this alive: receivers with a promised value, and calls of hold()
  std::size_t in_hand_ = 0;
  // must_wait while the channel is open; afterwards the outcome for senders and receivers
  outcome ended_ = outcome::must_wait;
  bool has_handle_ = true;
  std::uint64_t sent_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t refused_ = 0;
  channel_node* first_node_ = nullptr;  // nodes for reuse; the node in next_node_ is reused before them
  const std::shared_ptr<const std::string> name_;
};

inline bool channel_group::has_waiting(const channel_core& c) const noexcept {
  return !c.senders_.empty() || !seats_->empty() || is_short_;
}

}  // namespace canigo::detail
