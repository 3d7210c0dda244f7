#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/base/windowed_limit.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo {

/// The option for an adaptive limit that keeps the median latency at a target. Use it if you know the target, or if
/// many clients share one callee.
struct aimd {
  duration target = std::chrono::milliseconds{100};  ///< the target for the median latency; more than 0
};

/// The algorithm of an adaptive limit with a target latency. It has neither a clock nor a lock.
///
/// It evaluates windows of at least 50 calls and 100 ms. If the median latency exceeds the target, or more than one
/// call in twenty is dropped, the limit falls by a tenth. If the latency is far above the target, the limit falls by
/// more, up to a half. Otherwise, if calls use up the limit, it grows by half of its square root, and at least by 1.
///
/// A cancelled call counts only if it ran for longer than the target; its latency is then the time until the
/// cancellation.
///
/// Source: additive increase, multiplicative decrease: D. Chiu, R. Jain, "Analysis of the increase and decrease
/// algorithms for congestion avoidance", 1989; with the square root of D. Bansal, H. Balakrishnan, "Binomial congestion
/// control algorithms", 2001.
/// Threads: not thread-safe; its owner must hold a lock. Takes constant time. Allocates: never.
class aimd_control : public detail::windowed_limit {
 public:
  aimd_control(const aimd& options, const limit_bounds& bounds) noexcept;

  /// Records a call that has ended at `now`. Returns the new limit.
  std::uint64_t record(const limit_sample& s, time_point now) noexcept;

  /// The target latency. This algorithm measures no baseline, so the target serves as the baseline.
  duration baseline() const noexcept { return duration{static_cast<duration::rep>(target_)}; }

 private:
  void close(time_point now) noexcept;

  double target_;  // the target latency in nanoseconds
};

}  // namespace canigo
