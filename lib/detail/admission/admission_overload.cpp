// The functions of admission for overload: they shed waiters, and choose common wake-ups for several waiters.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>

namespace canigo::detail {

/// Sheds the waiters that have waited too long in an overloaded class, the least important class first. The last waiter
/// of the queue is never shed, because the next request checks for an overload again.
void admission::shed(time_point now) noexcept {
  if (flows_ != nullptr) return shed_of_flows(now);
  for (int c = priorities_ - 1; c >= 0; --c) {
    while (wait_node* n = queue_.oldest(c)) {
      if (queue_.size() == 1) return;
      if (delays_->shed_at(c, n->since()) > now) break;
      finish(static_cast<waiter&>(*n), to_outcome(errc::shed));
    }
  }
}

/// Like shed(), for a limit with flows. Each flow has its own delays.
void admission::shed_of_flows(time_point now) noexcept {
  flows_->advance(now);
  while (wait_node* n = flows_->overdue()) {
    if (flows_->size() == 1) return;
    finish(static_cast<waiter&>(*n), to_outcome(errc::shed));
  }
}

/// Returns when shed() must be called next, if no waiter comes or leaves before. At that time a waiter must be shed, or
/// another waiter becomes the next to be granted.
time_point admission::next_overload(time_point now) const noexcept {
  time_point next = time_point::max();
  if (flows_ != nullptr) return flows_->size() > 1 ? flows_->next_overdue() : next;
  if (queue_.size() <= 1) return next;
  for (int c = 0; c < priorities_; ++c) {
    const wait_node* const n = queue_.oldest(c);
    if (n == nullptr) continue;
    const bool becomes_another = delays_->takes_newest_at_times() && !delays_->is_overloaded(c, now);
    next = std::min(next, becomes_another ? delays_->overloaded_at(c) : delays_->shed_at(c, n->since()));
  }
  return next;
}

wait_node* admission::next_to_go(wait_queue& queue, time_point now) noexcept {
  wait_node* const first = queue.front(now);
  if (first == nullptr || !delays_ || !delays_->takes_newest(first->priority, now)) return first;
  return queue.newest(first->priority);
}

wait_node* admission::next_to_go(fair_queue& queue, time_point now) noexcept { return queue.front(now); }

/// Returns when to wake up for a waiter that can be granted from `ready` on. The result is `ready`, rounded up to a
/// multiple of slack_, so that several engines wake up together. The result is earlier if a bucket would overflow
/// before that time.
time_point admission::wake_for(time_point now, time_point ready) const noexcept {
  if (ready == time_point::max()) return ready;
  const duration since_last = ready.time_since_epoch() % slack_;
  const duration to_next = since_last <= duration::zero() ? -since_last : slack_ - since_last;
  return std::min(saturating_add(ready, to_next), supplies_.ready_without_loss(now, ready));
}

}  // namespace canigo::detail
