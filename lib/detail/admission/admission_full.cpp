// Supply meets demand where a limit has more than tokens and places of its own: a share, units, shedding, slack, shadow
// mode.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>

namespace canigo::detail {

/// The same as serve(), which says why; without flows.
void admission::serve_fully(time_point now) noexcept {
  bool seeks = false;
  const time_point shed_at = delays_ ? shed(now) : time_point::max();
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    while (wait_node* n = next_to_go(now)) {
      const demand wanted = demand_of(*n);
      const time_point ready = supplies_.ready_at(as_of, wanted);
      if (shadow_ != nullptr && is_over_in_shadow(*n, ready, now)) continue;
      if (ready > now) {
        next = slack_ == duration::zero() ? ready : wake_for(as_of, ready);
        if (shadow_ != nullptr) next = std::min(next, end_in_shadow(*n));
        // One that rises above it may be lighter.
        if (n->tokens > 1 || units_ != nullptr) next = std::min(next, queue_.next_promotion(now));
        break;
      }
      if (seat_ != nullptr) {
        seeks = !supplies_.shared()->seek(*seat_, queue_.effective_class(*n, now));
        if (seeks) {
          next = queue_.next_promotion(now);  // the others are to know its class
          break;
        }
      }
      supplies_.take(ready, wanted);
      as_of = ready;
      if (wanted.others != nullptr) leave_with_amounts(static_cast<waiter&>(*n), outcome::granted);
      if (delays_) delays_->one_goes(n->priority, queue_.oldest(n->priority)->since(), now);
      if (is_shadow()) {
        grant_in_shadow(*n, now);
        continue;
      }
      counts_.add_grant(n->priority, now - n->since());
      finish(static_cast<waiter&>(*n), outcome::granted);
    }
  }
  if (seat_ != nullptr && !seeks) supplies_.shared()->withdraw(*seat_);
  wake_at(queue_.empty() ? time_point::max() : std::min(next, shed_at));
}

}  // namespace canigo::detail
