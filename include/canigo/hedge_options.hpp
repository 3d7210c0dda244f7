#pragma once

#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo {

class latency_window;
class task_group;

/// A quantile, from 0 to 1: quantile{0.95} of measured latencies is the time that 95 % of them did not exceed.
struct quantile {
  double share = 0.95;
};

/// When a copy of a hedged operation starts: after a fixed time, or after a quantile of the latest latencies.
class hedge_delay {
 public:
  constexpr hedge_delay() noexcept = default;
  template <class Rep, class Period>
  constexpr hedge_delay(std::chrono::duration<Rep, Period> after) noexcept : after_{after} {}
  constexpr hedge_delay(quantile q) noexcept : share_{q.share}, is_quantile_{true} {}

  constexpr bool is_quantile() const noexcept { return is_quantile_; }
  /// The fixed time after which a copy starts; meaningless if is_quantile().
  constexpr duration after() const noexcept { return after_; }
  /// The quantile after which a copy starts; meaningless unless is_quantile().
  constexpr double share() const noexcept { return share_; }

 private:
  duration after_ = std::chrono::milliseconds{50};
  double share_ = 0;
  bool is_quantile_ = false;
};

/// Options for the budget of hedges: copies are at most 5 % of all calls, and 10 more at the start. Unused copies are
/// saved up to 100. Use: `canigo::retry_budget budget{canigo::hedge_budget};`
inline constexpr retry_budget::options hedge_budget{.percent = 5, .reserve = 10, .most = 100};

/// Options of hedge(), which runs copies of a slow operation.
///
/// The struct is trivially destructible, because some compilers mishandle other types inside a co_await expression.
struct hedge_options {
  hedge_delay after = {};  ///< when a copy starts: a time, 0 or more; or a quantile from 0 to 1, which needs a `window`
  /// max copies beside the first operation, 1 to 16; copy n starts n · `after` after the first operation
  std::uint32_t copies = 1;
  /// required: the budget that all callers of the same service share; must outlive them
  retry_budget* budget = nullptr;
  /// the task group that takes over the cancelled copies when one copy has a result; null: hedge() waits until those
  /// copies have ended
  task_group* group = nullptr;
  /// The latencies of the service; required if `after` is a quantile. The window must outlive the callers. hedge()
  /// records latencies in the window. While the window has too few latencies, no copy starts.
  latency_window* window = nullptr;
};

namespace detail {
/// Throws errc::invalid_argument for a field out of range.
void check(const hedge_options& o);
}  // namespace detail

}  // namespace canigo
