// Who goes when there are too many: shedding, and wake-ups for several at once.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>

namespace canigo::detail {

/// Ends those that have waited too long in an overloaded class, the least important class first; but not the last one
/// of all. When to look again.
time_point admission::shed(time_point now) noexcept {
  time_point next = time_point::max();
  for (int c = priorities_ - 1; c >= 0; --c) {
    while (wait_node* n = queue_.oldest(c)) {
      if (queue_.size() == 1) return time_point::max();  // the next to come looks again
      const time_point at = delays_->shed_at(c, n->since());
      if (at > now) {
        next = std::min(next, at);
        break;
      }
      finish(static_cast<waiter&>(*n), to_outcome(errc::shed));
    }
  }
  return next;
}

wait_node* admission::next_to_go(wait_queue& queue, time_point now) noexcept {
  wait_node* const first = queue.front(now);
  if (first == nullptr || !delays_ || !delays_->takes_newest(first->priority, now)) return first;
  return queue.newest(first->priority);
}

wait_node* admission::next_to_go(fair_queue& queue, time_point now) noexcept { return queue.front(now); }

/// When to wake up for one that is ready then: at a multiple of the slack, so that engines meet, but not so late that a
/// bucket overflows meanwhile.
time_point admission::wake_for(time_point now, time_point ready) const noexcept {
  if (ready == time_point::max()) return ready;
  const duration since_last = ready.time_since_epoch() % slack_;
  const duration to_next = since_last <= duration::zero() ? -since_last : slack_ - since_last;
  return std::min(saturating_add(ready, to_next), supplies_.ready_without_loss(now, ready));
}

}  // namespace canigo::detail
