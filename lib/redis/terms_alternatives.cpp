// The member functions of `terms` for the alternatives of a limit. They change the settings of an alternative, and
// compute when this alternative can serve a request.
#include "canigo/error.hpp"

#include "terms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace canigo::redis::detail {

using canigo::detail::throw_invalid;

std::size_t terms::checked_rate(const char* field, std::size_t alternative, std::size_t index) const {
  const std::size_t rates = alternatives_[alternative].rates;
  if (index >= rates) {
    throw_invalid(std::string{"alternative_handle."} + field + ": index", index, "less than " + std::to_string(rates));
  }
  return first_rates_[alternative] + index;
}

std::uint64_t terms::that_fit(std::uint64_t set, const demand& wanted) const noexcept {
  std::uint64_t fitting = 0;
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i;
    bool is_fitting = (set & bit) != 0;
    for (std::size_t unit = 0; unit < units_->size(); ++unit) {
      is_fitting = is_fitting && wanted.of(unit) <= most_in(first_rates_[i], end_of_rates(i), unit);
    }
    if (is_fitting) fitting |= bit;
  }
  return fitting;
}

std::uint64_t terms::most_of(std::uint64_t set, std::size_t unit) const noexcept {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    if ((set >> i & 1) != 0) most = std::max(most, most_in(first_rates_[i], end_of_rates(i), unit));
  }
  return most;
}

std::uint64_t terms::not_paused(std::uint64_t set, time_point now) const noexcept {
  for (std::size_t i = 0; i < paused_.size(); ++i) {
    if (now < paused_[i]) set &= ~(std::uint64_t{1} << i);
  }
  return set;
}

time_point terms::first_resumes_at(std::uint64_t set) const noexcept {
  time_point first = time_point::max();
  for (std::size_t i = 0; i < paused_.size(); ++i) {
    if ((set >> i & 1) != 0) first = std::min(first, paused_[i]);
  }
  return first;
}

void terms::set_rate_of(std::size_t alternative, std::size_t index, const canigo::rate& r, time_point tell_until) {
  const std::size_t at = checked_rate("set_rate", alternative, index);
  adopt_rate(at, r, settings_.rates[at].burst, "alternative_handle.set_rate: rate", true);
  unsaid_ |= setting::rate_of(at);
  tell_until_ = tell_until;
}

void terms::set_burst_of(std::size_t alternative, std::size_t index, std::uint64_t n, time_point tell_until) {
  const std::size_t at = checked_rate("set_burst", alternative, index);
  const rate_setting& r = settings_.rates[at];
  adopt_rate(at, canigo::rate{static_cast<std::int64_t>(r.tokens), duration{r.period} * 1000}, n,
             "alternative_handle.set_burst: burst", false);
  unsaid_ |= setting::burst_of(at);
  tell_until_ = tell_until;
}

void terms::set_permits_of(std::size_t alternative, std::uint64_t n, time_point tell_until) noexcept {
  settings_.alternatives[alternative].permits = n;
  unsaid_ |= setting::permits_of(alternative);
  tell_until_ = tell_until;
}

void terms::pause_alternative(std::size_t alternative, time_point t, bool may_end, time_point now,
                              time_point tell_until) noexcept {
  time_point& until = paused_[alternative];
  const setting whole = setting::pause_of(alternative);
  const setting longer = setting::longer_pause_of(alternative);
  if (may_end) {
    until = t <= now ? time_point::min() : t;
    unsaid_ = unsaid_.without(longer) | whole;
  } else {
    until = std::max(until, t);
    if (!unsaid_.has(whole)) unsaid_ |= longer;
  }
  tell_until_ = tell_until;
}

void terms::charge_at(std::size_t alternative, std::size_t unit, std::int64_t amount, time_point tell_until) noexcept {
  charged_.at[alternative][unit] += amount;
  tell_until_ = tell_until;
}

/// Returns a lower bound on the time in which the alternatives together can grant the amount `all`. The function splits
/// `all` into one part for each alternative. It returns the shortest time in which one of the alternatives can grant
/// its part. Until then, the alternatives together can't have granted `all`, whatever the split is. A split by the
/// speed of the rates gives a close bound.
duration terms::time_of_unit(std::uint64_t set, std::size_t unit, double all, time_point now) const noexcept {
  const auto speed = [&](std::size_t a) {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = first_rates_[a]; i < end_of_rates(a); ++i) {
      const rate_setting& r = settings_.rates[i];
      if (r.unit == unit) least = std::min(least, static_cast<double>(r.tokens) / static_cast<double>(r.period));
    }
    return least;
  };
  double sum = 0;
  for (std::size_t a = 0; a < alternatives_.size(); ++a) sum += (set >> a & 1) != 0 ? speed(a) : 0;
  // if one of the alternatives has no rate for this unit, the unit causes no wait
  if (sum == std::numeric_limits<double>::infinity()) return duration::zero();
  duration least = duration::max();
  for (std::size_t a = 0; a < alternatives_.size(); ++a) {
    if ((set >> a & 1) == 0) continue;
    std::array<double, most_units> part{};
    part[unit] = std::floor(all * (speed(a) / sum));  // rounded down, so that the sum of the parts is at most `all`
    least = std::min(least, time_in(first_rates_[a], end_of_rates(a), part, now));
  }
  return least;
}

duration terms::time_until_any(std::uint64_t set, const std::array<double, most_units>& own,
                               const std::array<double, most_units>& all, time_point now) const noexcept {
  duration least = duration::max();
  for (std::size_t a = 0; a < alternatives_.size(); ++a) {
    if ((set >> a & 1) == 0) continue;
    const bool may_end = paused_[a] == time_point::max() || paused_[a] <= now;
    const duration pause = may_end ? duration::zero() : paused_[a] - now;
    least = std::min(least, std::max(pause, time_in(first_rates_[a], end_of_rates(a), own, now)));
  }
  for (std::size_t unit = 0; unit < most_units; ++unit) {
    if (all[unit] > own[unit]) least = std::max(least, time_of_unit(set, unit, all[unit], now));
  }
  return least;
}

}  // namespace canigo::redis::detail
