// The functions of admission that grant requests in a limit with special features: a shared cap, units, strict windows,
// shedding, slack, or shadow mode.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>
#include <type_traits>

namespace canigo::detail {

/// Does the work of serve() for a limit that has one of the rarer options, such as a shared cap. The comments in
/// serve() explain the steps. In a limit with a shared cap, the first waiter seeks a shared slot as soon as nothing
/// else delays it.
template <class Queue>
void admission::serve_fully(Queue& queue, time_point now) noexcept {
  constexpr bool has_flows = std::is_same_v<Queue, fair_queue>;
  bool seeks = false;
  if (delays_) shed(now);
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    [[maybe_unused]] const time_point caught_up = as_of;
    wait_node* n = nullptr;
    while ((n = next_to_go(queue, now)) != nullptr) {
      const demand wanted = demand_of(*n);
      const time_point ready = supplies_.ready_at(as_of, wanted);
      if (shadow_ != nullptr && is_over_in_shadow(*n, ready, now)) continue;
      if (ready > now) {
        next = slack_ == duration::zero() ? ready : wake_for(as_of, ready);
        if (shadow_ != nullptr) next = std::min(next, end_in_shadow(*n));
        // A promotion may bring another waiter ahead of `n`. That waiter may request fewer tokens than `n`, so its
        // grant may be due before `ready`. So the next wake-up is not later than the next promotion.
        if (n->tokens > 1 || units_ != nullptr) next = std::min(next, queue.next_promotion(now));
        break;
      }
      if (seat_ != nullptr) {
        seeks = !supplies_.shared()->seek(*seat_, queue.effective_class(*n, now));
        if (seeks) {
          next = queue.next_promotion(now);  // the others (limits with the same cap) must get this waiter's new class
          break;
        }
      }
      [[maybe_unused]] const std::uint64_t charge = units_ != nullptr ? supplies_.charge_for(wanted) : n->tokens;
      supplies_.take(ready, wanted, now);
      if (wanted.others != nullptr) static_cast<waiter&>(*n).amounts_->granted_at = now;
      as_of = ready;
      if constexpr (has_flows) {
        queue.grant(*n, caught_up, charge, is_shadow());
        if (is_shadow()) {
          grant_in_shadow(*n, now);
          continue;
        }
        counts_.add_grant(n->priority, now - n->since());
        end_wait(static_cast<waiter&>(*n), outcome::granted);
      } else {
        if (wanted.others != nullptr) leave_with_amounts(static_cast<waiter&>(*n), outcome::granted);
        if (delays_) delays_->one_goes(n->priority, queue.oldest(n->priority)->since(), now);
        if (is_shadow()) {
          grant_in_shadow(*n, now);
          continue;
        }
        counts_.add_grant(n->priority, now - n->since());
        finish(static_cast<waiter&>(*n), outcome::granted);
      }
    }
    if constexpr (has_flows) {
      // If `n` is null although requests wait, each of these requests is delayed by a limit or a pause of its own flow.
      if (n == nullptr) next = queue.next_change();
    }
  }
  if (seat_ != nullptr && !seeks) supplies_.shared()->withdraw(*seat_);
  if (delays_) next = std::min(next, next_overload(now));
  wake_at(queue.empty() ? time_point::max() : next);
}

void admission::serve_fully(time_point now) noexcept {
  flows_ == nullptr ? serve_fully(queue_, now) : serve_fully(*flows_, now);
}

}  // namespace canigo::detail
