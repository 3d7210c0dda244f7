#include "canigo/detail/queue/rate_set.hpp"

#include <algorithm>
#include <limits>

namespace canigo::detail {

bool rate_set::can_take(time_point now, demand d) const noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const std::uint64_t amount = wanted_of(i, d);
    if (amount == 0) continue;
    const window_log* const w = window_of(i);
    if (!rates_[i].can_take(now, amount) || (w != nullptr && !w->has_room(now, amount))) return false;
  }
  return true;
}

void rate_set::take(time_point as_of, demand d, time_point now) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const std::uint64_t amount = wanted_of(i, d);
    if (amount == 0) continue;
    window_log* const w = window_of(i);
    if (w != nullptr) w->pass(as_of, amount, rates_[i]);
    (void)rates_[i].try_take(as_of, amount);
    if (w != nullptr) w->add(now, amount);
  }
}

void rate_set::refund(std::size_t rate, time_point now, std::uint64_t amount, time_point granted_at) noexcept {
  if (window_log* const w = window_of(rate)) w->give_back(granted_at, amount);
  rates_[rate].refund(now, amount);
}

void rate_set::charge(std::size_t rate, time_point now, std::uint64_t amount) noexcept {
  if (window_log* const w = window_of(rate)) w->add(now, amount);
  rates_[rate].charge(now, amount);
}

void rate_set::refund(time_point now, demand d, time_point granted_at) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) refund(i, now, wanted_of(i, d), granted_at);
}

void rate_set::charge(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) charge(i, now, wanted_of(i, d));
}

void rate_set::settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
                      time_point granted_at) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (unit_of(i) != unit) continue;
    if (used > wanted) {
      charge(i, now, used - wanted);
    } else {
      refund(i, now, wanted - used, granted_at);
    }
  }
}

std::int64_t rate_set::available(std::size_t rate, time_point now) const noexcept {
  const std::int64_t there = rates_[rate].available(now);
  const window_log* const w = window_of(rate);
  return w != nullptr ? std::min(there, w->room(now)) : there;
}

/// Charges the bucket until it has at most `most` tokens. The strict window does not change, because it counts only the
/// grants of this process, and not the usage of other users of the quota.
void rate_set::lower(std::size_t rate, time_point now, std::uint64_t most) noexcept {
  const std::int64_t there = rates_[rate].available(now);
  if (there > 0 && static_cast<std::uint64_t>(there) > most) {
    rates_[rate].charge(now, static_cast<std::uint64_t>(there) - most);
  }
}

void rate_set::set_rate(std::size_t rate, time_point now, const canigo::rate& r) noexcept {
  if (window_log* const w = window_of(rate)) w->set_rate(now, r);
  rates_[rate].set_rate(now, r);
}

time_point rate_set::rate_ready_at(std::size_t rate, time_point now, demand d) const noexcept {
  const std::uint64_t amount = wanted_of(rate, d);
  if (amount == 0) return now;  // a request for 0 tokens never waits, even if the bucket is in debt
  const window_log* const w = window_of(rate);
  const time_point ready = rates_[rate].ready_at(now, amount);
  return w != nullptr ? std::max(ready, w->ready_at(now, amount)) : ready;
}

time_point rate_set::ready_at(time_point now, demand d) const noexcept {
  time_point ready = now;
  for (std::size_t i = 0; i < rates_.size(); ++i) ready = std::max(ready, rate_ready_at(i, now, d));
  return ready;
}

wait_reason rate_set::slowest(time_point now, demand d) const noexcept {
  wait_reason last{.until = time_point::min()};
  if (!rates_.empty()) last.binds = wait_reason::cause::rate;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const time_point ready = rate_ready_at(i, now, d);
    if (ready <= last.until) continue;
    last.index = i;
    last.until = ready;
  }
  return last;
}

std::uint64_t rate_set::largest_request(std::size_t unit) const noexcept {
  std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (unit_of(i) != unit) continue;
    largest = std::min(largest, rates_[i].burst());
    if (const window_log* const w = window_of(i)) largest = std::min(largest, w->most());
  }
  return largest;
}

}  // namespace canigo::detail
