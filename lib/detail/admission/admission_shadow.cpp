// The functions of admission for shadow mode, in which each request is granted immediately. A shadow waiter waits in
// the place of the request, so that the engine itself determines how long the request would have waited without shadow
// mode.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <mutex>
#include <new>
#include <utility>

namespace canigo::detail {

/// A shadow waiter. Its request was already granted; the shadow waiter waits in the queue to measure how long the
/// request would have waited. It is deleted when its wait has ended.
struct admission::phantom final : waiter {
  phantom(admission& home, time_point deadline) noexcept : waiter{home, true, false}, until{deadline} {}
  void resume() override {}
  void post() override {}
  void destroy() noexcept override { delete this; }
  // the deadline of the request: if the shadow waiter's grant came later, the request would have timed out
  time_point until;
};

/// Grants a request. If the request would have to wait without shadow mode, a shadow waiter is added to the queue to
/// measure that wait.
outcome admission::enter_in_shadow(const request& r, time_point now, bool is_patient) noexcept {
  const outcome wrong = why_not_amounts(r);
  if (wrong == to_outcome(errc::invalid_argument)) return wrong;
  if (now == time_point::min()) now = clock();
  if (units_ != nullptr) {
    if (!units_->records.reserve()) return to_outcome(errc::not_enough_memory);
    // reserves the unit_record that the request's permit will take; the shadow waiter takes another record
    units_->records.promise(now);
  }
  amounts_by_unit amounts{r.tokens};
  if (units_ != nullptr) resolve(r, amounts);
  const demand wanted{r.tokens, &amounts};
  const bool fits = wrong == outcome::must_wait && r.tokens <= largest_request(r) && supplies_.fits(wanted);
  const std::uint32_t flow = number_of(r);
  if (flows_ != nullptr) flows_->advance(now);
  const bool is_next = flows_ == nullptr ? queue_.empty() : fits && flows_->may_enter(flow, wanted);
  if (is_next && !is_paused(now) && r.deadline >= now && supplies_.try_take_each(now, wanted)) {
    if (flows_ != nullptr) flows_->enter(flow, wanted);
  } else {
    supplies_.occupy_beyond(supplies_.places_for(r.tokens));
    if (flows_ != nullptr) flows_->enter_beyond(flow, r.tokens);
    if (is_patient && fits) {
      let_wait_in_shadow(r, flow, now);
    } else {
      ++shadow_->counts.refused;
    }
  }
  counts_.add_grant_at_once(r.priority);
  return outcome::granted;
}

void admission::let_wait_in_shadow(const request& r, std::uint32_t flow, time_point now) noexcept {
  const bool is_hopeless = r.deadline != time_point::max() && earliest(r, now) > r.deadline;
  bool evicted = false;
  const auto finds_room = [&] {
    if (flows_ != nullptr) return finds_room_in_flow(flow, r.priority, evicted);
    return queue_.size() < queue_limit_ || make_room(flow, r.priority);
  };
  if (is_hopeless || !finds_room()) {
    ++shadow_->counts.refused;
    return;
  }
  auto* const p = new (std::nothrow) phantom{*this, r.deadline};
  if (p == nullptr) return;  // if there is no memory for a shadow waiter, the request is granted, but not counted
  p->is_phantom_ = true;
  p->state_ = waiter::state::queued;
  p->tokens = r.tokens;
  p->priority = static_cast<std::uint16_t>(r.priority);
  if (units_ != nullptr) {
    p->amounts_ = units_->records.take();
    if (p->amounts_ == nullptr) return p->destroy();
    resolve(r, p->amounts_->amounts);
  }
  if (flows_ != nullptr) {
    flows_->push(*p, flow, r.since);
  } else {
    queue_.push(*p, now, r.since);
    if (p->amounts_ != nullptr) wait_for_amounts(*p);
    if (delays_ && queue_.size(r.priority) == 1) delays_->first_comes(r.priority, now);
  }
  pump(now);
}

/// Checks whether `n` is a shadow waiter whose request would have timed out without shadow mode: its deadline has
/// passed, and is earlier than `ready`. If so, deletes the waiter and returns true. `ready`: when the grant becomes
/// possible.
bool admission::is_over_in_shadow(wait_node& n, time_point ready, time_point now) noexcept {
  auto& w = static_cast<waiter&>(n);
  if (!w.is_phantom_) return false;
  const time_point until = static_cast<phantom&>(w).until;
  if (now <= until || ready <= until) return false;
  finish(w, to_outcome(errc::timed_out));
  return true;
}

time_point admission::end_in_shadow(const wait_node& n) const noexcept {
  const auto& w = static_cast<const waiter&>(n);
  return w.is_phantom_ ? saturating_add(static_cast<const phantom&>(w).until, duration{1}) : time_point::max();
}

/// Ends a shadow waiter when its request would be granted without shadow mode. The slots of the request, which were not
/// counted against the capacity until now, count from now on.
void admission::grant_in_shadow(wait_node& n, time_point now) noexcept {
  supplies_.take_over(supplies_.places_for(n.tokens));
  ++shadow_->counts.waited;
  shadow_->counts.wait.record(now - n.since());
  finish(static_cast<waiter&>(n), outcome::granted);
}

void admission::finish_phantom(waiter& w, outcome o) noexcept {
  if (flows_ == nullptr) {
    queue_.remove(w);
  } else if (o != outcome::granted) {  // a granted shadow waiter was already removed from the queue
    flows_->remove(w);
  }
  if (w.amounts_ != nullptr) {
    if (o != outcome::granted) {
      leave_with_amounts(w, o);
    } else {
      // the request's permit has its own record of the amounts, so the record of the shadow waiter is dropped
      drop_amounts(w);
    }
  }
  if (o == to_outcome(errc::shed)) {
    ++shadow_->counts.shed;
  } else if (o != outcome::granted && o != to_outcome(errc::stopped)) {
    ++shadow_->counts.refused;
  }
  w.destroy();
}

enforcement admission::mode() const noexcept {
  const std::lock_guard lock{mutex_};
  return is_shadow() ? enforcement::shadow : enforcement::enforce;
}

void admission::set_mode(enforcement mode, std::string_view field) {
  if (mode != enforcement::enforce && mode != enforcement::shadow) {
    throw_invalid(field, static_cast<int>(mode), "enforce, shadow");
  }
  const bool is_wanted = mode == enforcement::shadow;
  if (is_wanted && seat_ != nullptr) throw_invalid(field, "shadow", "enforce, because places are shared");
  if (is_wanted && supplies_.any_of() != nullptr)
    throw_invalid(field, "shadow", "enforce, because of the alternatives");
  auto made = std::make_unique<shadow_state>();
  const change c{*this};
  if (is_wanted == is_shadow() || context_gone_) return;
  const time_point now = time_->now();
  if (is_wanted) {
    if (shadow_ == nullptr) shadow_ = std::move(made);
    let_all_go(now);
    shadow_->is_on = true;
  } else {
    while (wait_node* n = queue_.first_of_most_important()) finish(static_cast<waiter&>(*n), to_outcome(errc::stopped));
    supplies_.count_beyond();
    if (flows_ != nullptr) {
      flows_->for_each([this](wait_node& n) { finish(static_cast<waiter&>(n), to_outcome(errc::stopped)); });
      flows_->count_beyond();
    }
    shadow_->is_on = false;
  }
  choose_ways();
  pump(now);
}

/// Grants all waiting requests immediately. So the rates may go into debt, and more slots than the capacity may be in
/// use.
void admission::let_all_go(time_point now) noexcept {
  shadow_->is_on = false;
  const auto let_go = [&](wait_node& n) {
    const demand wanted = demand_of(n);
    supplies_.rates().charge(now, wanted);
    if (wanted.others != nullptr) static_cast<waiter&>(n).amounts_->granted_at = now;
    supplies_.occupy_beyond(supplies_.places_for(n.tokens));
    counts_.add_grant(n.priority, now - n.since());
    if (wanted.others != nullptr) leave_with_amounts(static_cast<waiter&>(n), outcome::granted);
    finish(static_cast<waiter&>(n), outcome::granted);
  };
  while (wait_node* n = queue_.front(now)) let_go(*n);
  if (flows_ == nullptr) return;
  flows_->advance(now);
  flows_->for_each([&](wait_node& n) {
    flows_->go_beyond(n);
    let_go(n);
  });
}

}  // namespace canigo::detail
