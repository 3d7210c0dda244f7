#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace canigo {

/// A histogram of durations, with a count for each bucket of durations. Its size is fixed, and it is cheap enough to
/// record every wait.
///
/// There are four buckets per power of two, from 1 µs to 19 hours, as in HdrHistogram with two significant bits. A
/// computed quantile is never below the true one. It exceeds the true one by at most 25 % or 256 ns, whichever is more.
/// All durations over 19 hours share one bucket; max() is exact for them, too.
///
/// Threads: not thread-safe; its owner must hold a lock.
/// Allocates: never. The value takes 1.2 KiB and can be copied.
class wait_histogram {
 public:
  /// Records one duration. A negative duration counts as zero.
  void record(duration waited) noexcept {
    waited = std::max(waited, duration::zero());
    ++counts_[bucket_of(waited)];
    ++count_;
    sum_ += static_cast<std::uint64_t>(waited.count());
    max_ = std::max(max_, waited);
  }

  /// Records `n` durations of zero.
  void record_at_once(std::uint64_t n) noexcept {
    counts_[0] += n;
    count_ += n;
  }

  /// Adds all counts of `other`.
  void merge(const wait_histogram& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  duration max() const noexcept { return max_; }

  /// The sum of all durations. It is a floating-point number, because a `duration` holds 292 years at most. The waits
  /// of 107,000 waiters add up to that in a day.
  std::chrono::duration<double> sum() const noexcept {
    return std::chrono::duration<double, std::nano>{static_cast<double>(sum_)};
  }

  /// Returns a duration that the share `p` of the recorded durations did not exceed. For example, 99 % of the durations
  /// did not exceed quantile(0.99). The result is the upper edge of a bucket, but at most max(). Zero if nothing was
  /// recorded. A `p` below 0, and NaN, counts as 0; a `p` above 1 counts as 1.
  duration quantile(double p) const noexcept;

  /// The number of recorded durations below `limit`. It is exact if `limit` is a power of two times 256 ns, from 512 ns
  /// on. Any other `limit` is rounded down to the edge of a bucket.
  std::uint64_t count_below(duration limit) const noexcept;

 private:
  // Durations are counted in units of 256 ns. Each of the first four buckets is one unit wide. Above them there are
  // four buckets for each power of two.
  static constexpr unsigned unit_bits = 8;
  static constexpr unsigned octaves = 36;
  static constexpr std::size_t buckets = 4 + 4 * octaves;

  static std::size_t bucket_of(duration waited) noexcept {
    const std::uint64_t units = static_cast<std::uint64_t>(waited.count()) >> unit_bits;
    if (units < 4) return units;
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 2;
    return std::min<std::size_t>(4 * octave + ((units >> (octave - 1)) & 3), buckets - 1);
  }

  std::array<std::uint64_t, buckets> counts_{};
  detail::uint128 sum_ = 0;
  std::uint64_t count_ = 0;
  duration max_{0};
};

}  // namespace canigo
