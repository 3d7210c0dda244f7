#include "canigo/detail/channel/channel_core.hpp"

#include "canigo/error.hpp"

#include <exception>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

channel_core::~channel_core() {
  delete next_node_.load(std::memory_order_relaxed);
  while (first_node_ != nullptr) delete std::exchange(first_node_, first_node_->next_);
}

void channel_core::give_back(channel_node& n) noexcept {
  if (next_node_.load(std::memory_order_relaxed) == nullptr) {
    next_node_.store(&n, std::memory_order_release);
  } else {
    n.next_ = std::exchange(first_node_, &n);
  }
}

void channel_core::refill() noexcept {
  if (first_node_ == nullptr || next_node_.load(std::memory_order_relaxed) != nullptr) return;
  next_node_.store(std::exchange(first_node_, first_node_->next_), std::memory_order_release);
}

owned_node channel_core::other_spare_node(owned_node busy) noexcept {
  const channel_group::change c{group_};
  channel_node** place = &first_node_;
  while (*place != nullptr && !(*place)->is_empty()) place = &(*place)->next_;
  channel_node* const n = *place;
  if (n != nullptr) *place = n->next_;
  if (busy != nullptr) give_back(*busy.release());
  return owned_node{n};
}

void channel_core::keep_node(owned_node n) noexcept {
  const channel_group::change c{group_};
  give_back(*n.release());
}

channel_core::channel_core(channel_group& group, const channel_terms& t)
    : group_{group},
      room_{group.room_, t.limit, t.reserved},
      limit_{room_.limit()},
      priorities_{t.priorities},
      queue_limit_{t.queue_limit},
      values_{t.priorities},
      senders_{t.priorities},
      receivers_{1},
      seat_{*this},
      name_{t.name} {}

channel_core* channel_core::open(channel_group& group, const channel_terms& t) {
  const channel_group::change c{group};
  const channel_load unassigned = group.room_.unassigned();
  const auto check_reserved = [](std::string_view field, std::uint64_t reserved, std::uint64_t most) {
    if (reserved <= most) return;
    throw_invalid(field, reserved, "0 to " + std::to_string(most) + ", which is not reserved for another channel");
  };
  check_reserved("channel_options.reserved_capacity", t.reserved.items, unassigned.items);
  check_reserved("channel_options.reserved_bytes", t.reserved.bytes, unassigned.bytes);
  group.make_room_for(t.priorities);
  if (group.channels_.size() == group.channels_.capacity()) group.channels_.reserve(2 * group.channels_.size() + 1);
  auto* const core = new channel_core{group, t};
  core->index_ = group.channels_.size();
  if (group.context_gone_) core->ended_ = to_outcome(errc::stopped);
  group.channels_.push_back(core);
  if (t.reserved.items != 0 || t.reserved.bytes != 0) {
    group.is_short_ = group.is_short_ || group.room_.is_promised_twice();
    group.end_too_large();
  }
  return core;
}

/// Removes the channel from its group. The channel's reserved space becomes available to the other channels.
/// Precondition: the lock is held.
void channel_core::leave_group() noexcept {
  channel_core* const last = group_.channels_.back();
  group_.channels_[index_] = last;
  last->index_ = index_;
  group_.channels_.pop_back();
  room_.quit();
  if (!group_.channels_.empty()) group_.serve(*group_.channels_.front());
}

void channel_core::end_of(channel_core& c) noexcept {
  channel_group& group = c.group_;
  delete &c;
  group.release_ref();
}

void channel_core::abandon() noexcept {
  node_list dropped;
  bool is_last = false;
  {
    const channel_group::change c{group_};
    has_handle_ = false;
    ended_ = to_outcome(errc::stopped);
    end_senders(ended_);
    end_receivers(ended_);
    drop_unpromised(dropped);
    group_.serve(*this);
    is_last = in_hand_ == 0;
    if (is_last) leave_group();
  }
  if (is_last) end_of(*this);
}

void channel_core::drop_unpromised(node_list& dropped) noexcept {
  while (values_.size() > promised_) {
    wait_node& n = *values_.youngest_of_least_important();
    values_.remove(n);
    room_.leave(n.tokens);
    dropped.push(static_cast<channel_node&>(n));
  }
}

outcome channel_core::enter(owned_node& n, int priority) noexcept {
  const std::uint64_t bytes = n->tokens;
  outcome o = outcome::must_wait;
  if (priority < 0 || priority >= priorities_) {
    o = to_outcome(errc::invalid_priority);
  } else if (ended_ != outcome::must_wait) {
    o = ended_;
  } else if (!room_.can_ever_hold(bytes)) {
    o = to_outcome(errc::too_large);
  } else {
    n->priority = static_cast<std::uint16_t>(priority);
    const bool overtakes = !senders_.empty() || (!group_.seats_->empty() && !room_.is_reserved_for(bytes));
    if (overtakes || !room_.allows(bytes) || !room_.is_there_for(bytes)) return o;
    take_in(*n.release());
    return outcome::granted;
  }
  ++refused_;
  return o;
}

void channel_core::take_in(channel_node& n) noexcept {
  room_.enter(n.tokens);
  values_.push(n, {});
  ++sent_;
  refill();
  serve_receivers();
}

outcome channel_core::try_send(owned_node& n, int priority) noexcept {
  const channel_group::change c{group_};
  return enter(n, priority);
}

void channel_core::send(channel_waiter& w, int priority) noexcept {
  const channel_group::change c{group_};
  outcome o = enter(*w.value_, priority);
  if (o == outcome::must_wait && senders_.size() >= queue_limit_) {
    o = to_outcome(errc::queue_full);
    ++refused_;
  }
  if (o != outcome::must_wait) return group_.end(w, o);
  w.tokens = (*w.value_)->tokens;
  w.priority = static_cast<std::uint16_t>(priority);
  senders_.push(w, {});
  w.state_ = channel_waiter::state::queued;
  if (w.holds_work_) group_.hold_loop();
  // The value of the former first sender could not enter the channel. If `w` is the new first sender, its value may
  // be able to enter, because it may be smaller, or more important than the values of other channels.
  if (first_sender() == &w) group_.serve(*this);
}

void channel_core::end_senders(outcome o) noexcept {
  while (wait_node* n = senders_.first_of_most_important()) {
    senders_.remove(*n);
    ++refused_;
    group_.conclude(static_cast<channel_waiter&>(*n), o);
  }
}

void channel_core::serve_receivers() noexcept {
  while (!receivers_.empty() && values_.size() > promised_) {
    wait_node& n = *receivers_.first_of_most_important();
    receivers_.remove(n);
    ++promised_;
    ++in_hand_;
    group_.conclude(static_cast<channel_waiter&>(n), outcome::granted);
  }
}

/// Returns the node of the first value. The node is already marked as free, but still contains the value.
channel_node& channel_core::take_first() noexcept {
  auto& n = static_cast<channel_node&>(*values_.first_of_most_important());
  values_.remove(n);
  room_.leave(n.tokens);
  give_back(n);
  ++received_;
  if (group_.has_waiting(*this)) group_.serve(*this);
  return n;
}

channel_node* channel_core::try_receive(outcome& why) noexcept {
  const channel_group::change c{group_};
  if (values_.size() > promised_) return &take_first();
  why = ended_;
  return nullptr;
}

void channel_core::receive(channel_waiter& w) noexcept {
  const channel_group::change c{group_};
  if (values_.size() > promised_) {
    ++promised_;
    ++in_hand_;
    return group_.end(w, outcome::granted);
  }
  if (ended_ != outcome::must_wait) return group_.end(w, ended_);
  if (receivers_.size() >= queue_limit_) return group_.end(w, to_outcome(errc::queue_full));
  receivers_.push(w, {});
  w.state_ = channel_waiter::state::queued;
  if (w.holds_work_) group_.hold_loop();
}

channel_node& channel_core::take_promised() noexcept {
  const channel_group::change c{group_};
  --promised_;
  return take_first();
}

void channel_core::hold() noexcept {
  const std::lock_guard lock{group_.mutex_};
  ++in_hand_;
}

void channel_core::let_go() noexcept {
  bool is_last = false;
  {
    const channel_group::change c{group_};
    is_last = --in_hand_ == 0 && !has_handle_;
    if (is_last) leave_group();
  }
  if (is_last) end_of(*this);
}

/// Called when a receiver does not take its promised value. If the channel has a handle, the value stays in the channel
/// for the next receiver. If the handle was destroyed, values that are promised to no receiver are dropped.
void channel_core::drop_promise() noexcept {
  {
    node_list dropped;
    const channel_group::change c{group_};
    --promised_;
    if (has_handle_) {
      serve_receivers();
    } else {
      drop_unpromised(dropped);
      group_.serve(*this);
    }
  }
  let_go();
}

void channel_core::end_receivers(outcome o) noexcept {
  while (wait_node* n = receivers_.first_of_most_important()) {
    receivers_.remove(*n);
    group_.conclude(static_cast<channel_waiter&>(*n), o);
  }
}

void channel_core::fail(channel_waiter& w, outcome o) noexcept {
  const channel_group::change c{group_};
  group_.end(w, o);
}

void channel_core::close() noexcept {
  const channel_group::change c{group_};
  if (ended_ != outcome::must_wait) return;
  ended_ = to_outcome(errc::closed);
  end_senders(ended_);
  end_receivers(ended_);
  group_.serve(*this);
}

bool channel_core::is_closed() const noexcept {
  const std::lock_guard lock{group_.mutex_};
  return ended_ != outcome::must_wait;
}

channel_counts channel_core::counts() const noexcept {
  const std::lock_guard lock{group_.mutex_};
  const channel_load used = room_.used();
  return {.items = used.items,
          .bytes = used.bytes,
          .senders = senders_.size(),
          .receivers = receivers_.size(),
          .sent = sent_,
          .received = received_,
          .cancelled = cancelled_,
          .refused = refused_,
          .capacity = limit_.items,
          .most_bytes = limit_.bytes};
}

void channel_core::check(std::uint64_t bytes, int priority) const {
  if (priority < 0 || priority >= priorities_) {
    throw_invalid("channel.send: priority", priority, "0 to " + std::to_string(priorities_ - 1),
                  errc::invalid_priority);
  }
  std::uint64_t most = 0;
  {
    const std::lock_guard lock{group_.mutex_};
    if (room_.can_ever_hold(bytes)) return;
    most = room_.largest();
  }
  if (bytes <= most)
    throw_invalid("channel.send: values", 1, "0, as all is reserved for other channels", errc::too_large);
  throw_invalid("channel.send: size of the value", bytes, "0 to " + std::to_string(most), errc::too_large);
}

std::exception_ptr channel_core::why_wrong(std::uint64_t bytes, int priority) const noexcept {
  try {
    check(bytes, priority);
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace canigo::detail
