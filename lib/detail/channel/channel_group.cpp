#include "canigo/detail/channel/channel_group.hpp"

#include "canigo/detail/channel/channel_core.hpp"

#include <algorithm>
#include <mutex>

namespace canigo::detail {

namespace {

/// Converts the virtual time of a channel to an arrival time, by which the queue for shared space orders the channels.
time_point to_arrival(std::uint64_t virtual_time) noexcept {
  return time_point{duration{static_cast<std::int64_t>(virtual_time)}};
}

}  // namespace

channel_group* channel_group::open(const net::any_io_executor& executor, const channel_load& limit) {
  return new channel_group{executor, limit};
}

channel_group::channel_group(const net::any_io_executor& executor, const channel_load& limit)
    : delivery{executor}, room_{limit}, seats_{std::make_unique<wait_queue>(1)} {
  join();
}

group_counts channel_group::counts() const noexcept {
  const std::lock_guard lock{mutex_};
  std::size_t senders = 0;
  for (const channel_core* c : channels_) senders += c->senders_.size();
  return {room_.used(), channels_.size(), senders};
}

void channel_group::serve(channel_core& c) noexcept {
  seat_anew(c);
  let_in_reserved(c);
  while (wait_node* first = seats_->first_of_most_important()) {
    channel_core& next = *static_cast<channel_core::seat*>(first)->owner;
    if (!next.room_.is_there_for(next.first_sender()->tokens)) break;
    let_in(next);
  }
  if (!is_short_) [[likely]]
    return;
  is_short_ = room_.is_promised_twice();
  for (channel_core* other : channels_) let_in_reserved(*other);
}

/// Accepts values that fit into the reserved space of the channel. These values do not wait behind other channels in
/// the queue for shared space.
void channel_group::let_in_reserved(channel_core& c) noexcept {
  while (c.seat_.linked()) {
    const std::uint64_t bytes = c.first_sender()->tokens;
    if (!c.room_.is_reserved_for(bytes) || !c.room_.is_there_for(bytes)) return;
    let_in(c);
  }
}

/// Accepts the value of the first sender of `c`. Precondition: `c` has a seat in the queue for shared space.
void channel_group::let_in(channel_core& c) noexcept {
  channel_waiter& w = *c.first_sender();
  virtual_time_ = std::max(virtual_time_, c.tag_);
  c.tag_ += room_.charge_for(w.tokens);
  seats_->remove(c.seat_);
  c.senders_.remove(w);
  c.take_in(*w.value_->release());
  conclude(w, outcome::granted);
  seat_anew(c);
}

/// Updates the seat of a channel in the queue for shared space. A channel has a seat if the value of its first sender
/// fits within the channel's own limits, so that only shared space is missing.
void channel_group::seat_anew(channel_core& c) noexcept {
  const channel_waiter* const first = c.first_sender();
  const bool is_due = first != nullptr && c.room_.allows(first->tokens);
  if (c.seat_.linked()) {
    if (is_due && c.seat_.priority == first->priority) return;
    seats_->remove(c.seat_);
  }
  if (!is_due) return;
  c.tag_ = std::max(c.tag_, virtual_time_);
  c.seat_.priority = first->priority;
  seats_->push(c.seat_, to_arrival(c.tag_), to_arrival(c.tag_));
}

void channel_group::make_room_for(int priorities) {
  auto larger = std::make_unique<wait_queue>(priorities);
  if (priorities <= seats_->priorities()) return;
  while (wait_node* n = seats_->first_of_most_important()) {
    seats_->remove(*n);
    const time_point at = to_arrival(static_cast<channel_core::seat*>(n)->owner->tag_);
    larger->push(*n, at, at);
  }
  seats_.swap(larger);
}

void channel_group::end_too_large() noexcept {
  for (channel_core* c : channels_) {
    const bool holds_none = !c->room_.can_ever_hold(0);
    const auto end = [&](wait_node& n) {
      if (!holds_none && n.tokens <= c->room_.largest()) return;
      c->senders_.remove(n);
      ++c->refused_;
      conclude(static_cast<channel_waiter&>(n), to_outcome(errc::too_large));
    };
    if (holds_none) {
      while (wait_node* n = c->first_sender()) end(*n);
    } else {
      c->senders_.for_each_heavier_than(c->room_.largest(), end);
    }
    serve(*c);
  }
}

/// Ends the wait of a waiter that was removed from its queue.
void channel_group::conclude(channel_waiter& w, outcome o) noexcept {
  if (w.holds_work_) release_loop();
  end(w, o);
}

void channel_group::end(channel_waiter& w, outcome o) noexcept {
  w.outcome_ = o;
  w.state_ = channel_waiter::state::ending;
  if (w.at_home_ && pushes()) return make_pushed(w);
  make_ready(w, w.at_home_);
}

/// Cancels the wait of a waiter. If the waiter is not queued, its channel may already be destroyed, so `channel_` is
/// not used then.
void channel_group::cancel(channel_waiter& w) noexcept {
  const change c{*this};
  if (w.state_ != channel_waiter::state::queued) return;
  auto& channel = static_cast<channel_core&>(*w.channel_);
  const bool is_sender = w.value_ != nullptr;
  (is_sender ? channel.senders_ : channel.receivers_).remove(w);
  ++channel.cancelled_;
  conclude(w, outcome::aborted);
  if (is_sender) serve(channel);
}

void channel_group::let_go_of_context() noexcept {
  time_ = nullptr;
  delivery::let_go_of_context();
}

void channel_group::end_with_context() noexcept {
  suspended_list waiters;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    const auto take_each = [&](wait_queue& q) {
      while (wait_node* n = q.first_of_most_important()) {
        q.remove(*n);
        auto& w = static_cast<channel_waiter&>(*n);
        w.state_ = channel_waiter::state::fresh;
        waiters.push(w);
      }
    };
    for (channel_core* c : channels_) {
      if (c->seat_.linked()) seats_->remove(c->seat_);
      take_each(c->senders_);
      take_each(c->receivers_);
      c->ended_ = to_outcome(errc::stopped);
    }
    waiters.append(take_all());
    time_ = nullptr;
  }
  // The waiting coroutines are destroyed without the lock, because their frames may own channels and values.
  while (suspended* s = waiters.pop()) s->destroy();
  // The destructor of a strand's executor uses the execution context. So the group's executor is destroyed now, while
  // the context still exists.
  const std::lock_guard lock{mutex_};
  let_go_of_context();
}

}  // namespace canigo::detail
