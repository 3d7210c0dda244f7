#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/time.hpp"
#include "canigo/token_bucket.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The most that a flow may have, however much of its limit is free: rates, and a cap on its places. Where the limit
/// has several units, each rate counts one of them.
///
/// Threads: none; its owner holds a lock.
class flow_ceiling {
 public:
  static constexpr std::uint64_t no_cap = std::numeric_limits<std::uint64_t>::max();

  flow_ceiling() = default;
  /// `units`: the unit of each rate, or nothing where there is only one.
  flow_ceiling(std::vector<token_bucket> rates, std::uint64_t cap, std::vector<std::uint8_t> units = {}) noexcept
      : rates_{std::move(rates)}, units_{std::move(units)}, cap_{cap} {}

  /// Whether it binds anybody ever.
  bool is_any() const noexcept { return cap_ != no_cap || !rates_.empty(); }

  bool has_room_for(std::uint64_t places) const noexcept { return places <= cap_ && occupied_ <= cap_ - places; }
  /// How many requests for one token and one place it allows at `now`.
  std::uint64_t allows(time_point now) const noexcept {
    std::uint64_t n = occupied_ < cap_ ? cap_ - occupied_ : 0;
    for (const token_bucket& r : rates_) {
      n = std::min(n, static_cast<std::uint64_t>(std::max(r.available(now), std::int64_t{0})));
    }
    return n;
  }
  /// When the rates allow so much, and when one of them does.
  time_point rates_ready_at(time_point now, demand d) const noexcept {
    time_point ready = now;
    for (std::size_t i = 0; i < rates_.size(); ++i) ready = std::max(ready, rate_ready_at(i, now, d));
    return ready;
  }
  time_point rate_ready_at(std::size_t rate, time_point now, demand d) const noexcept {
    const std::uint64_t amount = d.of(unit_of(rate));
    return amount == 0 ? now : rates_[rate].ready_at(now, amount);  // even if the bucket is in debt
  }
  /// When it allows so much, and so many places; max if that takes a release.
  time_point ready_at(time_point now, demand d, std::uint64_t places) const noexcept {
    return has_room_for(places) ? rates_ready_at(now, d) : time_point::max();
  }
  /// The most of a unit that the rates ever allow at once.
  std::uint64_t largest_request(std::size_t unit = 0) const noexcept {
    std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      if (unit_of(i) == unit) largest = std::min(largest, rates_[i].burst());
    }
    return largest;
  }

  /// Takes what it allows at `now`.
  void take(time_point now, demand d, std::uint64_t places) noexcept {
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      if (const std::uint64_t amount = d.of(unit_of(i)); amount != 0) (void)rates_[i].try_take(now, amount);
    }
    occupied_ += places;
  }
  /// More is released than is counted where some are held beyond the cap, in shadow mode; see supplies.
  void release(std::uint64_t places) noexcept {
    occupied_ -= places;
    if (static_cast<std::int64_t>(occupied_) < 0) beyond_ += std::exchange(occupied_, 0);
  }
  void occupy_beyond(std::uint64_t places) noexcept { beyond_ += places; }
  /// Counts places that take() has occupied as some that were held beyond.
  void take_over(std::uint64_t places) noexcept {
    const std::uint64_t out = std::min(places, beyond_);
    beyond_ -= out;
    occupied_ -= places - out;
  }
  void count_beyond() noexcept { occupied_ += std::exchange(beyond_, 0); }
  void charge(time_point now, demand d) noexcept {
    for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].charge(now, d.of(unit_of(i)));
  }
  void refund(time_point now, demand d) noexcept {
    for (std::size_t i = 0; i < rates_.size(); ++i) rates_[i].refund(now, d.of(unit_of(i)));
  }
  /// Charges what was used of a unit beyond what was wanted, or gives back the rest.
  void settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used) noexcept {
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      if (unit_of(i) != unit) continue;
      if (used > wanted) {
        rates_[i].charge(now, used - wanted);
      } else {
        rates_[i].refund(now, wanted - used);
      }
    }
  }

  std::vector<token_bucket>& rates() noexcept { return rates_; }
  const std::vector<token_bucket>& rates() const noexcept { return rates_; }
  std::uint64_t cap() const noexcept { return cap_; }
  void set_cap(std::uint64_t cap) noexcept { cap_ = cap; }
  std::uint64_t occupied() const noexcept { return occupied_ + beyond_; }

 private:
  std::size_t unit_of(std::size_t rate) const noexcept { return units_.empty() ? 0 : units_[rate]; }

  std::vector<token_bucket> rates_;
  std::vector<std::uint8_t> units_;  // of each rate, where there are several
  std::uint64_t cap_ = no_cap;
  std::uint64_t occupied_ = 0;
  std::uint64_t beyond_ = 0;  // held, and not counted against the cap
};

}  // namespace canigo::detail
