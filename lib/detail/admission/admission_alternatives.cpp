// The functions of admission that grant requests of a limit with alternatives or sublimits. Each request takes capacity
// from only one of the alternatives.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

lane_key admission::key_of_node(const wait_node& n) noexcept {
  const unit_record& record = record_of(n);
  return {record.set, record.sublimit};
}

unit_record& admission::record_of(const wait_node& n) noexcept { return *static_cast<const waiter&>(n).amounts_; }

/// Makes the queue. Its waiters are always in a fair_queue, which has a lane (a separate queue) for each combination of
/// a sublimit and a set of alternatives.
void admission::make_lanes() {
  const fair_queue::amounts_of_node amounts = [](const wait_node& n) noexcept -> const amounts_by_unit* {
    return &record_of(n).amounts;
  };
  flows_ = std::make_unique<fair_queue>(priorities_, queue_.ageing(), supplies_.occupies(), amounts,
                                        delays_ ? delays_->rule() : delay_rule{{}}, &key_of_node);
}

/// Returns why no alternative can ever serve a request.
outcome admission::why_no_alternative(const request& r) const noexcept {
  const alternatives& any = *supplies_.any_of();
  const std::uint64_t allowed = any.allowed(r.alternatives);
  if ((allowed & any.all()) == 0) return to_outcome(errc::invalid_argument);
  return to_outcome((allowed & any.not_closed()) == 0 ? errc::stopped : errc::too_large);
}

bool admission::knows_sublimit(const request& r) const noexcept {
  return supplies_.named() == nullptr || r.sublimit < 0 ||
         static_cast<std::size_t>(r.sublimit) < supplies_.named()->size();
}

void admission::check_sublimit(const request& r) const {
  if (supplies_.named() == nullptr) return;
  if (!knows_sublimit(r)) {
    throw_invalid("request.sublimit", r.sublimit, "-1 to " + std::to_string(supplies_.named()->size() - 1));
  }
  const std::uint16_t here = sublimit_of(r);
  if (const std::uint64_t most = supplies_.named()->largest_request(here, 0); r.tokens > most) {
    throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(most), errc::too_large);
  }
  for (const unit_amount& a : r.amounts) {
    const std::uint64_t most = supplies_.named()->largest_request(here, supplies_.units()->find(a.unit));
    if (a.amount <= most) continue;
    throw_invalid("request.amounts[" + unit_table::quoted(a.unit) + "]", a.amount, "0 to " + std::to_string(most),
                  errc::too_large);
  }
}

void admission::check_alternatives(const request& r) const {
  const alternatives& any = *supplies_.any_of();
  check_sublimit(r);
  if (any.is_hidden()) return;
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

lane_key admission::key_of(const request& r, demand wanted) const noexcept {
  const alternatives& any = *supplies_.any_of();
  return {any.that_fit(any.allowed(r.alternatives), wanted), sublimit_of(r)};
}

/// Returns the alternative that serves a new request now; no_alternative if the request has to wait. The request goes
/// before waiters only if its sublimit, its alternative and the common limits are not reserved for a waiter.
std::size_t admission::alternative_for_newcomer(const lane_key& key, demand wanted, std::uint32_t flow,
                                                time_point now) noexcept {
  // If there are no waiters, no capacity may stay reserved. left_open_ may be out of date, because serve_any_of() is
  // not called if the last waiter leaves during a pause.
  if (flows_->empty()) left_open_ = {};
  if (now < paused_until_ || !left_open_.has(key) || !flows_->may_pass(flow, wanted)) return no_alternative;
  if (supplies_.ready_at(now, wanted) > now || sublimit_ready_at(key.sublimit, now, wanted) > now)
    return no_alternative;
  return supplies_.any_of()->choose(key.set & left_open_.alternatives(), now, now, wanted).index;
}

/// Grants a new request immediately if it need not wait, and no waiter needs the same sublimit. If a waiter needs the
/// same sublimit, returns must_wait_in_flow, because the grant may use up that sublimit. Then grant_newcomer() grants
/// the request, and serve_any_of() finds out which waiters can still be granted.
outcome admission::enter_any_of(const request& r, time_point now, std::uint32_t flow) noexcept {
  amounts_by_unit amounts;
  resolve(r, amounts);
  const demand wanted{r.tokens, &amounts};
  if (!knows_sublimit(r)) return to_outcome(errc::invalid_argument);
  const lane_key key = key_of(r, wanted);
  if (key.set == 0) return why_no_alternative(r);
  if (!fits_sublimit(key.sublimit, wanted)) return to_outcome(errc::too_large);
  const std::size_t chosen = alternative_for_newcomer(key, wanted, flow, now);
  if (chosen == no_alternative || left_open_.is_needed(key.sublimit)) return outcome::must_wait_in_flow;
  if (!units_->records.reserve()) return to_outcome(errc::not_enough_memory);
  unit_record& promised = units_->records.promise(now);
  promised.amounts = amounts;
  grant_at_once(r, key, chosen, flow, now, promised);
  return outcome::granted;
}

void admission::grant_at_once(const request& r, const lane_key& key, std::size_t chosen, std::uint32_t flow,
                              time_point now, unit_record& record) noexcept {
  const demand wanted{r.tokens, &record.amounts};
  supplies_.take(now, wanted, now);
  supplies_.any_of()->take(chosen, now, wanted, now);
  if (supplies_.named() != nullptr) supplies_.named()->take(key.sublimit, now, wanted, now);
  flows_->enter(flow, wanted);
  record.asked = r.alternatives;
  record.sublimit = key.sublimit;
  record.alternative = chosen;
  record.granted_at = now;
  counts_.add_grant_at_once(r.priority);
}

/// Grants a new request whose sublimit a waiter also needs, and then runs serve_any_of(). Returns false if the request
/// has to wait.
bool admission::grant_newcomer(waiter& w, const request& r, std::uint32_t flow, time_point now) noexcept {
  if (supplies_.named() == nullptr || !left_open_.is_needed(sublimit_of(r))) return false;
  const lane_key key = key_of(r, demand_of(w));
  const std::size_t chosen = alternative_for_newcomer(key, demand_of(w), flow, now);
  if (chosen == no_alternative) return false;
  grant_at_once(r, key, chosen, flow, now, record_of(w));
  stamp(w, r);
  w.outcome_ = outcome::granted;
  ready(w);
  pump(now);
  return true;
}

unit_record* admission::take_promised(const request& r) noexcept {
  if (supplies_.any_of() == nullptr) return units_->records.take_promised();
  amounts_by_unit amounts;
  resolve(r, amounts);
  return units_->records.take_promised({r.alternatives, sublimit_of(r)}, amounts);
}

/// Finds the set of alternatives that can serve a waiter, and creates the lane (the queue) of the waiters with that
/// set. Returns false if no alternative can serve the waiter, or there is no memory.
bool admission::finds_lane(waiter& w, const request& r) noexcept {
  unit_record& record = record_of(w);
  const lane_key key = key_of(r, demand_of(w));
  record.asked = r.alternatives;
  record.set = key.set;
  record.sublimit = key.sublimit;
  return flows_->make_lane(number_of(r), key);
}

/// Serves the waiters in their order. If a waiter's sublimit lacks capacity, only that sublimit is reserved for the
/// waiter. If its alternatives lack capacity, only these alternatives are reserved. So waiters for other sublimits or
/// alternatives are not delayed. If only a limit that all requests share lacks capacity, no later waiter is served. So
/// the waiter gets the next tokens of that limit.
void admission::serve_any_of(time_point now) noexcept {
  alternatives& any = *supplies_.any_of();
  if (delays_) shed(now);
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    // Tokens count as taken at the time when they became available, even if this function runs later; see serve().
    const time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    open_lanes open;
    flows_->advance(now);
    while (wait_node* const n = flows_->front_open(open)) {
      unit_record& record = record_of(*n);
      const demand wanted = demand_of(*n);
      const time_point sublimit_ready = sublimit_ready_at(record.sublimit, as_of, wanted);
      if (sublimit_ready > now) {
        next = std::min(next, sublimit_ready);
        open.keep_sublimit(record.sublimit);
        continue;
      }
      const alternatives::choice chosen = any.choose(record.set & open.alternatives(), as_of, now, wanted);
      if (chosen.index == no_alternative) {
        next = std::min(next, chosen.ready);
        open.keep_alternatives(key_of_node(*n));
        continue;
      }
      const time_point ready = supplies_.ready_at(as_of, wanted);
      if (ready > now) {
        next = std::min(next, ready);
        open.keep_all();
        break;
      }
      const time_point at = std::max({ready, chosen.ready, sublimit_ready});
      const std::uint64_t charge = supplies_.has_units() ? supplies_.charge_for(wanted, record.sublimit) : n->tokens;
      supplies_.take(at, wanted, now);
      any.take(chosen.index, at, wanted, now);
      if (supplies_.named() != nullptr) supplies_.named()->take(record.sublimit, at, wanted, now);
      record.granted_at = now;
      record.alternative = chosen.index;
      flows_->grant(*n, as_of, charge);
      counts_.add_grant(n->priority, now - n->since());
      const std::uint16_t sublimit = record.sublimit;
      end_wait(static_cast<waiter&>(*n), outcome::granted);
      // This grant may have used up the sublimit. An earlier waiter for which alternatives are reserved may need the
      // same sublimit. In that case its reservation may be useless now, so the loop starts again with the first waiter.
      if (open.is_needed(sublimit)) {
        open = {};
        next = time_point::max();
      }
    }
    left_open_ = open;
    next = std::min(next, flows_->next_change());
  }
  if (delays_) next = std::min(next, next_overload(now));
  wake_at(flows_->empty() ? time_point::max() : next);
}

/// Call it when the largest request of an alternative or a sublimit may have changed. Updates the set of alternatives
/// of each waiter. Ends a waiter if its sublimit, or all of its alternatives, have become too small.
void admission::find_sets_anew() noexcept {
  alternatives& any = *supplies_.any_of();
  if (supplies_.named() != nullptr) {
    flows_->for_each([&](wait_node& n) {
      if (!fits_sublimit(record_of(n).sublimit, demand_of(n)))
        finish(static_cast<waiter&>(n), to_outcome(errc::too_large));
    });
  }
  if (!any.look_at_sizes()) return;
  flows_->for_each([&](wait_node& n) {
    unit_record& record = record_of(n);
    const std::uint64_t set = any.that_fit(any.allowed(record.asked), demand_of(n));
    if (set == record.set) return;
    if (set == 0) {
      const bool is_closed = (record.asked & any.not_closed()) == 0;
      return finish(static_cast<waiter&>(n), to_outcome(is_closed ? errc::stopped : errc::too_large));
    }
    if (!flows_->make_lane(n.flow(), {set, record.sublimit})) {
      return finish(static_cast<waiter&>(n), to_outcome(errc::not_enough_memory));
    }
    const std::uint32_t row = flows_->row_of(n);
    record.set = set;
    flows_->move_to_lane(n, row);
  });
}

/// Returns the earliest time at which a request could be served, after the earlier requests of the same flow that need
/// the same sublimit and alternatives.
time_point admission::earliest_of_any(const request& r, time_point now) const noexcept {
  const std::uint32_t flow = number_of(r);
  amounts_by_unit own;
  resolve(r, own);
  const lane_key key = key_of(r, {own[0], &own});
  amounts_by_unit all = own;
  const std::size_t units = supplies_.has_units() ? supplies_.units()->size() : 1;
  for (std::size_t unit = 0; unit < units; ++unit) {
    const uint128 sum = uint128{own[unit]} + flows_->amount_in_lane(flow, key, last_class_ahead(r), unit);
    all[unit] = static_cast<std::uint64_t>(std::min<uint128>(sum, std::numeric_limits<std::uint64_t>::max()));
  }
  return earliest_of_any(flow, key, now, {own[0], &own}, {all[0], &all});
}

time_point admission::earliest_of_any(std::uint32_t flow, const lane_key& key, time_point now, demand own,
                                      demand all) const noexcept {
  time_point ready = std::max(supplies_.rates().ready_at(now, all), flows_->ceiling(flow).earliest(now, all));
  ready = std::max(ready, supplies_.any_of()->earliest(key.set, now, own, all));
  if (supplies_.named() != nullptr) ready = std::max(ready, supplies_.named()->earliest(key.sublimit, now, all));
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

/// Returns the limit that would delay a waiter even if no other waiter were before it.
wait_reason admission::what_binds(const wait_node& n, time_point now) const noexcept {
  const alternatives* const any = supplies_.any_of();
  if (any == nullptr) return supplies_.what_binds(now, demand_of(n));
  const auto [set, sublimit] = key_of_node(n);
  if (sublimit_ready_at(sublimit, now, demand_of(n)) > now)
    return supplies_.named()->what_binds(sublimit, now, demand_of(n));
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
  return alternatives_count() > 0 ? to_record(kept)->alternative : no_alternative;
}

std::string_view admission::name_of_alternative(std::size_t i) const noexcept {
  const alternatives* const any = supplies_.any_of();
  return any != nullptr && !any->is_hidden() && i < any->size() ? std::string_view{(*any)[i].name} : std::string_view{};
}

}  // namespace canigo::detail
