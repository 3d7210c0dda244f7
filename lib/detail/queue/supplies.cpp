#include "canigo/detail/queue/supplies.hpp"

#include "canigo/time.hpp"

#include <algorithm>

namespace canigo::detail {

bool supplies::try_take_all(time_point now, demand d) noexcept {
  if (!rates_.can_take(now, d)) return false;
  if (shared_ != nullptr && !shared_->try_take()) return false;
  rates_.take(now, d);
  return true;
}

/// Returns the latest instant to which a grant can be delayed without a loss of tokens: the instant at which the first
/// bucket becomes full. `ready`: the earliest instant of the grant. A bucket that is full before `ready` loses tokens
/// in any case, so it is ignored.
time_point supplies::ready_without_loss(time_point now, time_point ready) const noexcept {
  time_point latest = time_point::max();
  for (const auto& rate : rates_) {
    if (const time_point full = rate.ready_at(now, rate.burst()); full >= ready) latest = std::min(latest, full);
  }
  return latest;
}

wait_reason supplies::what_binds(time_point now, demand d, std::uint64_t places) const noexcept {
  if (!has_room_for(places)) return {.binds = wait_reason::cause::concurrency};
  const wait_reason last = rates_.slowest(now, d);
  if (shared_ != nullptr && last.until <= now) return {.binds = wait_reason::cause::share};
  return last;
}

void supplies::undo(time_point now, demand d, time_point granted_at) noexcept {
  rates_.refund(now, d, granted_at);
  release(places_for(d.tokens));
}

std::uint64_t supplies::largest_request(std::size_t unit) const noexcept {
  const std::uint64_t by_rates = rates_.largest_request(unit);
  return unit == 0 && occupancy_ == occupancy::tokens ? std::min(capacity_, by_rates) : by_rates;
}

std::uint64_t supplies::charge_for(demand d, std::uint16_t sublimit) const noexcept {
  constexpr std::uint64_t parts = 256, most_time = std::uint64_t{1} << 54;
  std::uint64_t largest = 1;
  const rate_set* here = rates_.empty() && any_of_ != nullptr ? &(*any_of_)[0].rates : &rates_;
  if (here->empty() && sublimit != without_sublimit) here = &(*named_)[sublimit].rates;
  const rate_set& rates = *here;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const rate r = rates[i].rate();
    const auto tokens = static_cast<std::uint64_t>(r.tokens());
    const uint128 time = uint128{d.of(rates.unit_of(i))} * static_cast<std::uint64_t>(r.period().count());
    if (time / tokens >= most_time) return most_time * parts;
    largest = std::max(largest, static_cast<std::uint64_t>((time * parts + tokens - 1) / tokens));
  }
  return largest;
}

bool supplies::fits(demand d) const noexcept {
  const std::size_t units = has_units_ ? units_->size() : 1;
  for (std::size_t unit = 0; unit < units; ++unit) {
    if (d.of(unit) > largest_request(unit)) return false;
  }
  return true;
}

}  // namespace canigo::detail
