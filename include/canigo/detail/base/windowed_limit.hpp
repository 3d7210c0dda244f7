#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/base/sample_window.hpp"
#include "canigo/time.hpp"

#include <cstdint>

namespace canigo::detail {

/// The base of the algorithms of adaptive limits: the limit with its bounds, the current window, and the last decision.
/// Once per window, the algorithm decides whether the limit changes.
///
/// After the limit falls, the next window begins when all calls that began before the fall have ended.
/// Threads: not thread-safe; its owner must hold a lock. Allocates: never.
class windowed_limit {
 public:
  std::uint64_t limit() const noexcept { return static_cast<std::uint64_t>(limit_); }
  /// The median latency of the last window.
  duration latency() const noexcept { return duration{static_cast<duration::rep>(last_)}; }
  const limit_decision& last_decision() const noexcept { return decision_; }

 protected:
  explicit windowed_limit(const limit_bounds& b) noexcept;
  ~windowed_limit() = default;
  windowed_limit(const windowed_limit&) = default;
  windowed_limit& operator=(const windowed_limit&) = default;

  /// Whether the ended call `s` began before the limit last fell. Such a call does not count in the current window.
  bool is_settling(const limit_sample& s, time_point now) noexcept;
  /// Sets the limit, records the reason, and begins a new window.
  void decide(double limit, limit_reason why, time_point now) noexcept;

  // All latencies in the following members are in nanoseconds.
  double limit_;
  double least_, most_;
  double last_ = 0;  // the median latency of the last window
  sample_window window_;

 private:
  bool is_settling_ = false;  // whether calls that began before the limit last fell may still be running
  time_point fell_at_{};
  limit_decision decision_{};
};

}  // namespace canigo::detail
