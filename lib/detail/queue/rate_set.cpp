#include "canigo/detail/queue/rate_set.hpp"

#include <algorithm>
#include <limits>

namespace canigo::detail {

bool rate_set::can_take(time_point now, demand d) const noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const std::uint64_t amount = wanted_of(i, d);
    if (amount != 0 && !rates_[i].can_take(now, amount)) return false;
  }
  return true;
}

void rate_set::take(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (const std::uint64_t amount = wanted_of(i, d); amount != 0) (void)rates_[i].try_take(now, amount);
  }
}

void rate_set::refund(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].refund(now, wanted_of(i, d));
}

void rate_set::charge(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].charge(now, wanted_of(i, d));
}

void rate_set::settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (unit_of(i) != unit) continue;
    if (used > wanted) {
      rates_[i].charge(now, used - wanted);
    } else {
      rates_[i].refund(now, wanted - used);
    }
  }
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
    if (unit_of(i) == unit) largest = std::min(largest, rates_[i].burst());
  }
  return largest;
}

}  // namespace canigo::detail
