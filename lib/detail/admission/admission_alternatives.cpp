// The granting of requests in a limit with alternatives. A request takes from one of the alternatives.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

std::uint64_t admission::set_of_node(const wait_node& n) noexcept { return record_of(n).set; }

unit_record& admission::record_of(const wait_node& n) noexcept { return *static_cast<const waiter&>(n).amounts_; }

/// Creates the queue. A limit with alternatives always uses a fair_queue, with a lane for each set of alternatives.
void admission::make_lanes() {
  const fair_queue::amounts_of_node amounts = [](const wait_node& n) noexcept -> const amounts_by_unit* {
    return &record_of(n).amounts;
  };
  flows_ = std::make_unique<fair_queue>(priorities_, queue_.ageing(), supplies_.occupies(), amounts,
                                        delays_ ? delays_->rule() : delay_rule{{}}, &set_of_node);
}

/// Returns why no alternative can ever serve a request.
outcome admission::why_no_alternative(const request& r) const noexcept {
  const alternatives& any = *supplies_.any_of();
  if ((r.alternatives & any.all()) == 0) return to_outcome(errc::invalid_argument);
  return to_outcome((r.alternatives & any.not_closed()) == 0 ? errc::stopped : errc::too_large);
}

void admission::check_alternatives(const request& r) const {
  const alternatives& any = *supplies_.any_of();
  if ((r.alternatives & any.all()) == 0) {
    throw_invalid("request.alternatives", r.alternatives,
                  "a set with an alternative of 0 to " + std::to_string(any.size() - 1));
  }
  if ((r.alternatives & any.not_closed()) == 0) {
    throw_invalid("request.alternatives", r.alternatives & any.all(), "a set with one that is not closed",
                  errc::stopped);
  }
  amounts_by_unit amounts;
  resolve(r, amounts);
  if (any.that_fit(r.alternatives, {r.tokens, &amounts}) != 0) return;
  const std::uint64_t most = any.largest_request(r.alternatives);
  if (r.tokens > most) throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(most), errc::too_large);
  for (const unit_amount& a : r.amounts) {
    const std::uint64_t here = any.largest_request(r.alternatives, supplies_.units()->find(a.unit));
    if (a.amount <= here) continue;
    throw_invalid("request.amounts[" + unit_table::quoted(a.unit) + "]", a.amount, "0 to " + std::to_string(here),
                  errc::too_large);
  }
  throw_invalid("request.tokens", r.tokens, "what one alternative can give together with the amounts", errc::too_large);
}

/// Grants a new request at once if no waiter wants what it takes, from the common limits and from one alternative.
outcome admission::enter_any_of(const request& r, time_point now, std::uint32_t flow) noexcept {
  alternatives& any = *supplies_.any_of();
  amounts_by_unit amounts;
  resolve(r, amounts);
  const demand wanted{r.tokens, &amounts};
  const std::uint64_t set = any.that_fit(r.alternatives, wanted);
  if (set == 0) return why_no_alternative(r);
  if (flows_->empty()) left_open_ = ~std::uint64_t{0};  // the last waiter may have left during a pause
  if (now < paused_until_ || (set & left_open_) == 0 || !flows_->may_pass(flow, wanted)) {
    return outcome::must_wait_in_flow;
  }
  if (supplies_.ready_at(now, wanted) > now) return outcome::must_wait_in_flow;
  const alternatives::choice chosen = any.choose(set & left_open_, now, now, wanted);
  if (chosen.index == no_alternative) return outcome::must_wait_in_flow;
  if (!units_->records.reserve()) return to_outcome(errc::not_enough_memory);
  supplies_.take(now, wanted, now);
  any.take(chosen.index, now, wanted, now);
  flows_->enter(flow, wanted);
  unit_record& promised = units_->records.promise(now);
  promised.amounts = amounts;
  promised.asked = r.alternatives;
  promised.alternative = chosen.index;
  counts_.add_grant_at_once(r.priority);
  return outcome::granted;
}

unit_record* admission::take_promised(const request& r) noexcept {
  if (supplies_.any_of() == nullptr) return units_->records.take_promised();
  amounts_by_unit amounts;
  resolve(r, amounts);
  return units_->records.take_promised(r.alternatives, amounts);
}

/// Finds the set of alternatives that can serve a waiter, and creates the lane for that set. Returns false if there is
/// no such alternative, or no memory.
bool admission::finds_lane(waiter& w, const request& r) noexcept {
  unit_record& record = record_of(w);
  record.asked = r.alternatives;
  record.set = supplies_.any_of()->that_fit(r.alternatives, demand_of(w));
  return flows_->make_lane(number_of(r), record.set);
}

/// Grants to waiters in their order. A waiter that no alternative of its set can serve now reserves the set. Later
/// waiters can't take from these alternatives, so the waiter goes as soon as one of them has enough. Waiters for other
/// alternatives pass it. A waiter that lacks only a common limit reserves everything, so it gets the next common
/// tokens.
void admission::serve_any_of(time_point now) noexcept {
  alternatives& any = *supplies_.any_of();
  if (delays_) shed(now);
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    // Tokens are taken as of their due time; see serve().
    const time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    std::uint64_t open = ~std::uint64_t{0};
    flows_->advance(now);
    while (wait_node* const n = flows_->front_open(open)) {
      unit_record& record = record_of(*n);
      const demand wanted = demand_of(*n);
      const alternatives::choice chosen = any.choose(record.set & open, as_of, now, wanted);
      if (chosen.index == no_alternative) {
        next = std::min(next, chosen.ready);
        open &= ~record.set;
        continue;
      }
      const time_point ready = supplies_.ready_at(as_of, wanted);
      if (ready > now) {
        next = std::min(next, ready);
        open = 0;
        break;
      }
      const time_point at = std::max(ready, chosen.ready);
      const std::uint64_t charge = supplies_.has_units() ? supplies_.charge_for(wanted) : n->tokens;
      supplies_.take(at, wanted, now);
      any.take(chosen.index, at, wanted, now);
      record.granted_at = now;
      record.alternative = chosen.index;
      flows_->grant(*n, as_of, charge);
      counts_.add_grant(n->priority, now - n->since());
      end_wait(static_cast<waiter&>(*n), outcome::granted);
    }
    left_open_ = open;
    next = std::min(next, flows_->next_change());
  }
  if (delays_) next = std::min(next, next_overload(now));
  wake_at(flows_->empty() ? time_point::max() : next);
}

/// Determines the set of each waiter again, after the largest possible request of an alternative has changed.
void admission::find_sets_anew() noexcept {
  alternatives& any = *supplies_.any_of();
  if (!any.look_at_sizes()) return;
  flows_->for_each([&](wait_node& n) {
    unit_record& record = record_of(n);
    const std::uint64_t set = any.that_fit(record.asked, demand_of(n));
    if (set == record.set) return;
    if (set == 0) {
      const bool is_closed = (record.asked & any.not_closed()) == 0;
      return finish(static_cast<waiter&>(n), to_outcome(is_closed ? errc::stopped : errc::too_large));
    }
    if (!flows_->make_lane(n.flow(), set)) {
      return finish(static_cast<waiter&>(n), to_outcome(errc::not_enough_memory));
    }
    const std::uint32_t row = flows_->row_of(n);
    record.set = set;
    flows_->move_to_lane(n, row);
  });
}

/// Returns when a request could be granted, after the requests of the same flow and set that go before it.
time_point admission::earliest_of_any(const request& r, time_point now) const noexcept {
  const std::uint32_t flow = number_of(r);
  amounts_by_unit own;
  resolve(r, own);
  const std::uint64_t set = supplies_.any_of()->that_fit(r.alternatives, {own[0], &own});
  amounts_by_unit all = own;
  const std::size_t units = supplies_.has_units() ? supplies_.units()->size() : 1;
  for (std::size_t unit = 0; unit < units; ++unit) {
    const uint128 sum = uint128{own[unit]} + flows_->amount_in_lane(flow, set, last_class_ahead(r), unit);
    all[unit] = static_cast<std::uint64_t>(std::min<uint128>(sum, std::numeric_limits<std::uint64_t>::max()));
  }
  return earliest_of_any(flow, set, now, {own[0], &own}, {all[0], &all});
}

time_point admission::earliest_of_any(std::uint32_t flow, std::uint64_t set, time_point now, demand own,
                                      demand all) const noexcept {
  const time_point common = std::max(supplies_.rates().ready_at(now, all), flows_->ceiling(flow).earliest(now, all));
  const time_point ready = std::max(common, supplies_.any_of()->earliest(set, now, own, all));
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

/// Returns the limit that delays a waiter if it is the first one.
wait_reason admission::what_binds(const wait_node& n, time_point now) const noexcept {
  const alternatives* const any = supplies_.any_of();
  if (any == nullptr) return supplies_.what_binds(now, demand_of(n));
  const std::uint64_t set = record_of(n).set;
  const bool has_room = any->choose(set, now, now, demand_of(n)).index != no_alternative;
  return has_room ? supplies_.what_binds(now, demand_of(n)) : any->what_binds(set, now, demand_of(n));
}

wait_reason admission::why_waiting() noexcept {
  const std::lock_guard lock{mutex_};
  const time_point now = clock();
  const flow_ceiling* held_by = nullptr;
  const wait_node* const head = flows_ == nullptr ? queue_.front(now) : first_in_flows(now, held_by);
  if (head == nullptr) return {};
  if (now < paused_until_) return {.binds = wait_reason::cause::paused, .until = paused_until_};
  if (held_by == nullptr) return what_binds(*head, now);
  return held_by->what_binds(now, demand_of(*head), supplies_.places_for(head->tokens));
}

void admission::pause_alternative(std::size_t i, time_point t, bool may_shorten) noexcept {
  adjust_supplies([=](supplies& s, time_point) {
    time_point& until = (*s.any_of())[i].paused_until;
    until = may_shorten ? t : std::max(t, until);
  });
}

void admission::move_to_alternative(std::uint64_t kept, std::size_t i) noexcept {
  adjust_supplies([=](supplies& s, time_point now) {
    alternatives& any = *s.any_of();
    unit_record& record = *to_record(kept);
    if (record.alternative == i) return;
    const demand amounts{record.amounts[0], &record.amounts};
    any.undo(record.alternative, now, amounts, record.granted_at);
    --any[record.alternative].granted;
    any.occupy(i, now, amounts);
    record.alternative = i;
  });
}

std::size_t admission::alternative_of(std::uint64_t kept) const noexcept {
  return supplies_.any_of() != nullptr ? to_record(kept)->alternative : no_alternative;
}

std::string_view admission::name_of_alternative(std::size_t i) const noexcept {
  const alternatives* const any = supplies_.any_of();
  return any != nullptr && i < any->size() ? std::string_view{(*any)[i].name} : std::string_view{};
}

}  // namespace canigo::detail
