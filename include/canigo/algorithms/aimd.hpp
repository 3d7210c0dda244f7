#pragma once

#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/base/windowed_limit.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo {

/// An adaptive limit that keeps the median latency at a target: for a known goal, and for many clients of one callee.
struct aimd {
  duration target = std::chrono::milliseconds{100};  ///< more than 0
};

/// The decisions of an adaptive limit with a target. A value without a clock and without a lock.
///
/// It looks at windows of at least 50 calls and 100 ms. If the median latency is above the target, or more than one
/// call in twenty is dropped, the limit falls by a tenth. If the latency is far above, it falls by more, up to a half.
/// Otherwise, if the limit binds, it grows by half of its square root, and by 1 at least.
///
/// A cancelled call counts with its age as its latency if that age is above the target; otherwise it does not count.
///
/// Source: additive increase, multiplicative decrease: D. Chiu, R. Jain, "Analysis of the increase and decrease
/// algorithms for congestion avoidance", 1989; with the square root of D. Bansal, H. Balakrishnan, "Binomial congestion
/// control algorithms", 2001.
/// Threads: not safe by itself; its owner holds a lock. Takes constant time. Allocates: never.
class aimd_control : public detail::windowed_limit {
 public:
  aimd_control(const aimd& options, const limit_bounds& bounds) noexcept;

  /// Learns of a call that has ended at `now`. Returns the limit from now on.
  std::uint64_t record(const limit_sample& s, time_point now) noexcept;

  /// The target.
  duration baseline() const noexcept { return duration{static_cast<duration::rep>(target_)}; }

 private:
  void close(time_point now) noexcept;

  double target_;  // in nanoseconds
};

}  // namespace canigo
