#pragma once

#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo {

class latency_window;
class task_group;

/// A share of all calls, from 0 to 1: quantile{0.95} of their latencies is the time that 95 % of them did not exceed.
struct quantile {
  double share = 0.95;
};

/// When a copy starts: after a time, or after the time that a share of the latest calls did not exceed.
class hedge_delay {
 public:
  constexpr hedge_delay() noexcept = default;
  template <class Rep, class Period>
  constexpr hedge_delay(std::chrono::duration<Rep, Period> after) noexcept : after_{after} {}
  constexpr hedge_delay(quantile q) noexcept : share_{q.share}, is_quantile_{true} {}

  constexpr bool is_quantile() const noexcept { return is_quantile_; }
  /// The time, if this is no quantile.
  constexpr duration after() const noexcept { return after_; }
  /// The share, if this is a quantile.
  constexpr double share() const noexcept { return share_; }

 private:
  duration after_ = std::chrono::milliseconds{50};
  double share_ = 0;
  bool is_quantile_ = false;
};

/// The budget of hedges: copies are at most 5 % of all calls, and 10 more at the start. At most 100 copies are saved
/// up. `canigo::retry_budget budget{canigo::hedge_budget};`
inline constexpr retry_budget::options hedge_budget{.percent = 5, .reserve = 10, .most = 100};

/// How hedge() runs copies of a slow operation.
///
/// Trivially destructible on purpose, so that it can stand in a co_await expression under every compiler.
struct hedge_options {
  hedge_delay after = {};          ///< a time, 0 or more; or quantile{0.95}, from 0 to 1, with a `window`
  std::uint32_t copies = 1;        ///< beside the first operation, 1 to 16; the n-th starts n times the delay later
  retry_budget* budget = nullptr;  ///< needed: shared by all callers of the same service; must outlive them
  task_group* group = nullptr;     ///< takes over the copies that lost; null: they are awaited
  /// The latencies of the service, for a quantile; must outlive the callers. hedge() records them. While the window
  /// knows too few, no copy starts.
  latency_window* window = nullptr;
};

namespace detail {
/// Throws errc::invalid_argument for a field outside its range.
void check(const hedge_options& o);
}  // namespace detail

}  // namespace canigo
