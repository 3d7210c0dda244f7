#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/detail/queue/window_log.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace canigo::detail {

/// The windows of strict rates, by the index of the rate. Empty: no rate is strict.
using rate_windows = std::vector<std::optional<window_log>>;

/// The rates of a limit or of a flow. Each rate counts one kind of unit. A request takes from each rate the amount that
/// it needs of the rate's unit.
///
/// Threads: not thread-safe; its owner must hold a lock.
class rate_set {
 public:
  rate_set() = default;
  /// `units` has the unit of each rate; empty if there is only one unit.
  explicit rate_set(std::vector<token_bucket> rates, std::vector<std::uint8_t> units = {},
                    rate_windows windows = {}) noexcept
      : rates_{std::move(rates)}, units_{std::move(units)}, windows_{std::move(windows)} {}

  bool empty() const noexcept { return rates_.empty(); }
  std::size_t size() const noexcept { return rates_.size(); }
  token_bucket& operator[](std::size_t rate) noexcept { return rates_[rate]; }
  const token_bucket& operator[](std::size_t rate) const noexcept { return rates_[rate]; }
  token_bucket& front() noexcept { return rates_.front(); }
  const token_bucket& front() const noexcept { return rates_.front(); }
  auto begin() const noexcept { return rates_.begin(); }
  auto end() const noexcept { return rates_.end(); }
  std::size_t unit_of(std::size_t rate) const noexcept { return units_.empty() ? 0 : units_[rate]; }
  bool has_windows() const noexcept { return !windows_.empty(); }

  bool can_take(time_point now, demand d) const noexcept;
  /// Takes the demand of a request. Precondition: now >= ready_at(now, d).
  void take(time_point now, demand d) noexcept { take(now, d, now); }
  /// Like take(now, d), for a request that is granted at `now` but takes tokens that were available at `as_of`. A
  /// strict window counts the request at `now`.
  void take(time_point as_of, demand d, time_point now) noexcept;
  /// Gives back a grant made at `granted_at`. If that time is unknown (time_point::min()), a strict window continues to
  /// count the grant.
  void refund(time_point now, demand d, time_point granted_at = time_point::min()) noexcept;
  void charge(time_point now, demand d) noexcept;
  /// Charges the amount of a unit by which `used` exceeds `wanted`, or gives back the unused amount as refund() does.
  void settle(time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
              time_point granted_at = time_point::min()) noexcept;

  /// The available tokens of one rate; negative while it is in debt.
  std::int64_t available(std::size_t rate, time_point now) const noexcept;
  /// Lowers the available tokens of a rate to at most `most`. If the rate is in debt, the debt does not change.
  void lower(std::size_t rate, time_point now, std::uint64_t most) noexcept;
  void set_rate(std::size_t rate, time_point now, const canigo::rate& r) noexcept;

  /// The instant at which all rates, or one rate, have the tokens for a request, if no other request comes.
  time_point ready_at(time_point now, demand d) const noexcept;
  time_point rate_ready_at(std::size_t rate, time_point now, demand d) const noexcept;
  /// The rate for whose tokens a request must wait longest, and the instant at which this rate has these tokens.
  wait_reason slowest(time_point now, demand d) const noexcept;
  /// The max amount of a unit that one request can ever get.
  std::uint64_t largest_request(std::size_t unit = 0) const noexcept;

 private:
  std::uint64_t wanted_of(std::size_t rate, demand d) const noexcept { return d.of(unit_of(rate)); }
  window_log* window_of(std::size_t rate) noexcept {
    return windows_.empty() || !windows_[rate] ? nullptr : &*windows_[rate];
  }
  const window_log* window_of(std::size_t rate) const noexcept {
    return windows_.empty() || !windows_[rate] ? nullptr : &*windows_[rate];
  }
  void charge(std::size_t rate, time_point now, std::uint64_t amount) noexcept;
  void refund(std::size_t rate, time_point now, std::uint64_t amount, time_point granted_at) noexcept;

  std::vector<token_bucket> rates_;
  std::vector<std::uint8_t> units_;  // the unit of each rate; empty if there is only one unit
  rate_windows windows_;             // the window of each rate; empty if no rate is strict
};

}  // namespace canigo::detail
