#pragma once

#include "canigo/detail/queue/units.hpp"
#include "canigo/time.hpp"
#include "canigo/token_bucket.hpp"
#include "canigo/wait_reason.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The rates of a limit or of a flow. Each counts one unit, and a request takes its amount of all.
///
/// Threads: none; its owner holds a lock.
class rate_set {
 public:
  rate_set() = default;
  /// `units`: the unit of each rate, or nothing where there is only one unit.
  explicit rate_set(std::vector<token_bucket> rates, std::vector<std::uint8_t> units = {}) noexcept
      : rates_{std::move(rates)}, units_{std::move(units)} {}

  bool empty() const noexcept { return rates_.empty(); }
  std::size_t size() const noexcept { return rates_.size(); }
  token_bucket& operator[](std::size_t rate) noexcept { return rates_[rate]; }
  const token_bucket& operator[](std::size_t rate) const noexcept { return rates_[rate]; }
  token_bucket& front() noexcept { return rates_.front(); }
  const token_bucket& front() const noexcept { return rates_.front(); }
  auto begin() const noexcept { return rates_.begin(); }
  auto end() const noexcept { return rates_.end(); }
  std::size_t unit_of(std::size_t rate) const noexcept { return units_.empty() ? 0 : units_[rate]; }

  bool can_take(time_point now, demand d) const noexcept;
  /// Takes what a request needs at ready_at(), or later.
  void take(time_point now, demand d) noexcept;
  void refund(time_point now, demand d) noexcept;
  void charge(time_point now, demand d) noexcept;
  /// Charges what was used of a unit beyond what was wanted, or gives back the rest.
  void settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used) noexcept;

  /// When all rates have what a request needs, if nobody else comes; and when one of them has.
  time_point ready_at(time_point now, demand d) const noexcept;
  time_point rate_ready_at(std::size_t rate, time_point now, demand d) const noexcept {
    const std::uint64_t amount = wanted_of(rate, d);
    return amount == 0 ? now : rates_[rate].ready_at(now, amount);  // even if the bucket is in debt
  }
  /// Which rate is the last one to have it, and when.
  wait_reason slowest(time_point now, demand d) const noexcept;
  /// The most of a unit that one request can ever get.
  std::uint64_t largest_request(std::size_t unit = 0) const noexcept;

 private:
  std::uint64_t wanted_of(std::size_t rate, demand d) const noexcept { return d.of(unit_of(rate)); }

  std::vector<token_bucket> rates_;
  std::vector<std::uint8_t> units_;  // of each rate, where there are several
};

}  // namespace canigo::detail
