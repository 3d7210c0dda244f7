#include "canigo/detail/queue/supplies.hpp"

#include "canigo/detail/base/int128.hpp"

#include <algorithm>
#include <limits>

namespace canigo::detail {

bool supplies::try_take_all(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const std::uint64_t amount = wanted_of(i, d);
    if (amount != 0 && !rates_[i].can_take(now, amount)) return false;
  }
  if (shared_ != nullptr && !shared_->try_take()) return false;
  take_tokens(now, d);
  return true;
}

void supplies::take_tokens(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (const std::uint64_t amount = wanted_of(i, d); amount != 0) (void)rates_[i].try_take(now, amount);
  }
}

time_point supplies::rates_ready_at(time_point now, demand d) const noexcept {
  time_point ready = now;
  for (std::size_t i = 0; i < rates_.size(); ++i) ready = std::max(ready, rate_ready_at(i, now, d));
  return ready;
}

/// A bucket that is full before `ready` loses tokens in any case: it is not what is waited for.
time_point supplies::ready_without_loss(time_point now, time_point ready) const noexcept {
  time_point latest = time_point::max();
  for (const auto& rate : rates_) {
    if (const time_point full = rate.ready_at(now, rate.burst()); full >= ready) latest = std::min(latest, full);
  }
  return latest;
}

wait_reason supplies::what_binds(time_point now, demand d, std::uint64_t places) const noexcept {
  if (!has_room_for(places)) return {.binds = wait_reason::cause::concurrency};
  wait_reason last{.binds = wait_reason::cause::rate, .until = time_point::min()};
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const time_point ready = rate_ready_at(i, now, d);
    if (ready <= last.until) continue;
    last.index = i;
    last.until = ready;
  }
  if (shared_ != nullptr && last.until <= now) return {.binds = wait_reason::cause::share};
  return last;
}

void supplies::undo(time_point now, demand d) noexcept {
  refund(now, d);
  release(places_for(d.tokens));
}

void supplies::refund(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].refund(now, wanted_of(i, d));
}

void supplies::charge(time_point now, demand d) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].charge(now, wanted_of(i, d));
}

void supplies::settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used) noexcept {
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (unit_of(i) != unit) continue;
    if (used > wanted) {
      rates_[i].charge(now, used - wanted);
    } else {
      rates_[i].refund(now, wanted - used);
    }
  }
}

std::uint64_t supplies::largest_request(std::size_t unit) const noexcept {
  std::uint64_t largest =
      unit == 0 && occupancy_ == occupancy::tokens ? capacity_ : std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    if (unit_of(i) == unit) largest = std::min(largest, rates_[i].burst());
  }
  return largest;
}

std::uint64_t supplies::charge_for(demand d) const noexcept {
  constexpr std::uint64_t parts = 256, most_time = std::uint64_t{1} << 54;
  std::uint64_t largest = 1;
  for (std::size_t i = 0; i < rates_.size(); ++i) {
    const rate r = rates_[i].rate();
    const auto tokens = static_cast<std::uint64_t>(r.tokens());
    const uint128 time = uint128{wanted_of(i, d)} * static_cast<std::uint64_t>(r.period().count());
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
