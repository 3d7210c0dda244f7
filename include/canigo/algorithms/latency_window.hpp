#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace canigo {

/// How long the calls of a service took lately: quantiles over a window of time that moves on.
///
/// It has two histograms. The older one is dropped, and the younger one becomes the older one, after each half of
/// `length`. So a quantile is over the last half to whole `length`. It is never below the true one, and above it by at
/// most 25 % or 256 ns: see wait_histogram.
///
/// `now` is always an argument. A `now` that steps back counts into the younger histogram.
///
/// Threads: any, all members, at once. Allocates: never. 2.5 KiB.
class latency_window {
 public:
  struct options {
    duration length = std::chrono::minutes{1};  ///< 2ns or more
    std::uint64_t least_samples = 20;           ///< with fewer in the window, no quantile is known; 1 or more
  };

  latency_window() : latency_window{options{}} {}
  /// Throws std::system_error, errc::invalid_argument.
  explicit latency_window(const options& o);
  latency_window(const latency_window&) = delete;
  latency_window& operator=(const latency_window&) = delete;

  /// Counts a call that ended at `now` and took `took`.
  void record(time_point now, duration took) noexcept;

  /// The time that a share `p` of the calls did not exceed. Nothing if fewer than least_samples are in the window. `p`
  /// outside 0 … 1 counts as the nearer end.
  std::optional<duration> quantile(time_point now, double p) const noexcept;

  /// The calls in the window.
  std::uint64_t count(time_point now) const noexcept;

 private:
  bool is_current(time_point now) const noexcept;
  bool is_previous(time_point now) const noexcept;

  mutable detail::mutex mutex_;
  const duration half_;
  const std::uint64_t least_samples_;
  time_point since_ = time_point::min();  // when the younger one began; min: never
  wait_histogram younger_;
  wait_histogram older_;
};

}  // namespace canigo
