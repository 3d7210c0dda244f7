#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace canigo {

/// Quantiles of the latest latencies of a service, over a sliding window of time.
///
/// It has two histograms. After each half of `length` it drops the older histogram, and the younger one becomes the
/// older one. So a quantile covers a span between half of `length` and the whole of it. A computed quantile is never
/// below the true one, and exceeds it by at most 25 % or 256 ns: see wait_histogram.
///
/// `now` is always an argument. If `now` steps back, the call is recorded in the younger histogram.
///
/// Threads: any thread may call any member at any time. Allocates: never. 2.5 KiB.
class latency_window {
 public:
  struct options {
    duration length = std::chrono::minutes{1};  ///< the length of the window; 2ns or more
    std::uint64_t least_samples = 20;           ///< quantile() needs at least this many calls in the window; 1 or more
  };

  latency_window() : latency_window{options{}} {}
  /// Throws std::system_error (errc::invalid_argument) for an option out of range.
  explicit latency_window(const options& o);
  latency_window(const latency_window&) = delete;
  latency_window& operator=(const latency_window&) = delete;

  /// Records a call that ended at `now` and took `took`.
  void record(time_point now, duration took) noexcept;

  /// The latency that a share `p` of the calls did not exceed, or std::nullopt if the window has fewer than
  /// least_samples calls. A `p` below 0 counts as 0, a `p` above 1 as 1.
  std::optional<duration> quantile(time_point now, double p) const noexcept;

  /// The number of calls in the window.
  std::uint64_t count(time_point now) const noexcept;

 private:
  bool is_current(time_point now) const noexcept;
  bool is_previous(time_point now) const noexcept;

  mutable detail::mutex mutex_;
  const duration half_;
  const std::uint64_t least_samples_;
  time_point since_ = time_point::min();  // when younger_ began; min: never
  wait_histogram younger_;
  wait_histogram older_;
};

}  // namespace canigo
