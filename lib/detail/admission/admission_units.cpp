// The functions of admission for grants with a record. A record has the time of its grant, and the amount of each unit.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

/// Computes the amount of each unit that a request wants. Returns false if the amounts are invalid; see
/// unit_table::resolve().
bool admission::resolve(const request& r, amounts_by_unit& result) const noexcept {
  if (supplies_.units() != nullptr) return supplies_.units()->resolve(r.tokens, r.amounts, result);
  result = {r.tokens};
  return r.amounts.empty();
}

void admission::check_amounts(const request& r) const {
  static const unit_table none{{}, ""};
  const unit_table& units = supplies_.units() != nullptr ? *supplies_.units() : none;
  units.check(r.amounts);
  for (const unit_amount& a : r.amounts) {
    const std::uint64_t most = largest_amount(r, units.find(a.unit));
    if (a.amount <= most) continue;
    throw_invalid("request.amounts[" + unit_table::quoted(a.unit) + "]", a.amount, "0 to " + std::to_string(most),
                  errc::too_large);
  }
}

outcome admission::why_not_amounts(const request& r) const noexcept {
  if (r.amounts.empty()) return outcome::must_wait;
  amounts_by_unit amounts;
  if (!resolve(r, amounts)) {
    return to_outcome(errc::invalid_argument);
  }
  for (std::size_t unit = 1; unit < supplies_.units()->size(); ++unit) {
    if (amounts[unit] > largest_amount(r, unit)) return to_outcome(errc::too_large);
  }
  return outcome::must_wait;
}

/// Returns the largest amount of a unit that the limit, and the flow of `r`, can ever grant.
std::uint64_t admission::largest_amount(const request& r, std::size_t unit) const noexcept {
  const std::uint64_t of_limit = supplies_.largest_request(unit);
  return r.flow == nullptr ? of_limit : std::min(of_limit, flows_->largest_request(r.flow->number_, unit));
}

/// Grants a request if it need not wait, and reserves a unit_record for it. The request's permit takes that record.
outcome admission::try_enter_with_units(const request& r, time_point now) noexcept {
  if (!queue_.empty() || is_paused(now)) return outcome::must_wait;
  if (!units_->records.reserve()) return to_outcome(errc::not_enough_memory);
  amounts_by_unit amounts;
  resolve(r, amounts);
  if (!supplies_.try_take_each(now, {r.tokens, &amounts})) return outcome::must_wait;
  units_->records.promise(now);
  counts_.add_grant_at_once(r.priority);
  return outcome::granted;
}

/// Like try_enter_with_units(), for a limit with flows; see enter_flow().
outcome admission::enter_flow_with_units(const request& r, time_point now, std::uint32_t flow) noexcept {
  if (!units_->records.reserve()) return to_outcome(errc::not_enough_memory);
  amounts_by_unit amounts;
  resolve(r, amounts);
  const demand wanted{r.tokens, &amounts};
  if (now < paused_until_ || !flows_->may_enter(flow, wanted) || !supplies_.try_take_each(now, wanted)) {
    return outcome::must_wait_in_flow;
  }
  flows_->enter(flow, wanted);
  units_->records.promise(now);
  counts_.add_grant_at_once(r.priority);
  return outcome::granted;
}

/// Stores the amounts of the request `r` in its waiter `w`, if the outcome `o` is a grant or a wait. Returns `o`, with
/// one exception: if `w` must wait and there is no memory for its amounts, returns errc::not_enough_memory.
outcome admission::keep_amounts(waiter& w, const request& r, outcome o) noexcept {
  if (o == outcome::granted) w.amounts_ = take_promised(r);
  if (o == outcome::must_wait || o == outcome::must_wait_in_flow) {
    w.amounts_ = units_->records.take();
    if (w.amounts_ == nullptr) {
      o = to_outcome(errc::not_enough_memory);
      count_end(o);
      count_flow_failure(r);
    }
  }
  if (w.amounts_ != nullptr) resolve(r, w.amounts_->amounts);
  return o;
}

std::uint64_t admission::keep_amounts(const request& r) noexcept {
  const std::lock_guard lock{mutex_};
  unit_record* const kept = take_promised(r);
  resolve(r, kept->amounts);
  return reinterpret_cast<std::uint64_t>(kept);
}

unit_record* admission::to_record(std::uint64_t kept) noexcept { return reinterpret_cast<unit_record*>(kept); }

void admission::drop_amounts(waiter& w) noexcept { units_->records.put_back(std::exchange(w.amounts_, nullptr)); }

void admission::wait_for_amounts(const waiter& w) noexcept {
  auto& sum = units_->waiting[w.priority];
  for (std::size_t unit = 1; unit < most_units; ++unit) sum[unit] += w.amounts_->amounts[unit];
}

void admission::leave_with_amounts(waiter& w, outcome o) noexcept {
  if (flows_ == nullptr) {  // with flows, each flow keeps its own sums of waiting amounts, so the limit needs no sum
    auto& sum = units_->waiting[w.priority];
    for (std::size_t unit = 1; unit < most_units; ++unit) sum[unit] -= w.amounts_->amounts[unit];
  }
  if (o != outcome::granted) drop_amounts(w);
}

/// Returns when the rates will have enough of each unit for `r` and for the waiters before `r`. `tokens`: the sum of
/// the amounts of `r` and these waiters in the first unit.
time_point admission::amounts_ready_at(time_point now, const request& r, std::uint64_t tokens) const noexcept {
  amounts_by_unit wanted{};
  resolve(r, wanted);
  const int last = last_class_ahead(r);
  for (std::size_t unit = 1; unit < most_units; ++unit) {
    uint128 sum = wanted[unit];
    for (int c = 0; c <= last; ++c) sum += units_->waiting[static_cast<std::size_t>(c)][unit];
    wanted[unit] = static_cast<std::uint64_t>(std::min<uint128>(sum, std::numeric_limits<std::uint64_t>::max()));
  }
  return supplies_.rates().ready_at(now, {tokens, &wanted});
}

/// Computes, for each unit except the first, the sum of the amounts of `r` and of the waiters before `r`. `own` counts
/// the waiters of the flow of `r`; `all` also counts waiters of other flows.
void admission::add_amounts_ahead(const request& r, std::uint32_t flow, amounts_by_unit& own,
                                  amounts_by_unit& all) const noexcept {
  amounts_by_unit wanted;
  resolve(r, wanted);
  const auto sum = [](uint128 a, std::uint64_t b) {
    return static_cast<std::uint64_t>(std::min<uint128>(a + b, std::numeric_limits<std::uint64_t>::max()));
  };
  for (std::size_t unit = 1; unit < most_units; ++unit) {
    const fair_queue::ahead ahead = flows_->amount_ahead(flow, r.priority, last_class_ahead(r), unit);
    own[unit] = sum(ahead.own, wanted[unit]);
    all[unit] = sum(ahead.all, wanted[unit]);
  }
}

std::size_t admission::find_unit(const unit_key& unit, std::string_view field) const {
  const unit_table* const units = supplies_.units();
  const std::size_t found = units != nullptr ? units->find(unit) : 0;
  if (units == nullptr || found == units->size()) {
    throw_invalid(field, unit_table::quoted(unit), units != nullptr ? units->listed(0) : "none, as it has no units");
  }
  return found;
}

/// Changes the amount of one unit that a grant has taken to `used`. Precondition: grants keep records of their amounts.
void admission::settle_unit(std::uint32_t flow, std::uint64_t& kept, std::size_t unit, std::uint64_t used) noexcept {
  adjust_supplies([&](supplies& s, time_point now) {
    unit_record& record = *to_record(kept);
    std::uint64_t& was = record.amounts[unit];
    if (flow != fair_queue::nameless) {
      flows_->advance(now);
      flows_->settle(flow, unit, was, used, record.granted_at);
    }
    s.rates().settle(now, unit, was, used, record.granted_at);
    if (s.any_of() != nullptr) (*s.any_of())[record.alternative].rates.settle(now, unit, was, used, record.granted_at);
    if (s.named() != nullptr) s.named()->settle(record.sublimit, now, unit, was, used, record.granted_at);
    was = used;
  });
}

}  // namespace canigo::detail
