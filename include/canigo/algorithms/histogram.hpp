#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace canigo {

/// A histogram of times: a count for each bucket of time. It has a fixed size, and is cheap enough to record every
/// wait.
///
/// There are four buckets per power of two, from 1 µs to 19 hours, as in HdrHistogram with two significant bits. A
/// quantile is never below the true one. It is above it by at most 25 % or 256 ns, whichever is more. All times of
/// more than 19 hours share a bucket; max() is exact for them, too.
///
/// Threads: not safe by itself; its owner holds a lock.
/// Allocates: never. A value of 1.2 KiB, which can be copied.
class wait_histogram {
 public:
  /// Counts one time. A negative time counts as zero.
  void record(duration waited) noexcept {
    waited = std::max(waited, duration::zero());
    ++counts_[bucket_of(waited)];
    ++count_;
    sum_ += static_cast<std::uint64_t>(waited.count());
    max_ = std::max(max_, waited);
  }

  /// Counts `n` waits that took no time at all.
  void record_at_once(std::uint64_t n) noexcept {
    counts_[0] += n;
    count_ += n;
  }

  /// Adds everything that `other` has counted.
  void merge(const wait_histogram& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  duration max() const noexcept { return max_; }

  /// The sum of all times. In floating-point seconds, because the waits of 107,000 waiters add up to 292 years in a
  /// day, and a duration holds no more.
  std::chrono::duration<double> sum() const noexcept {
    return std::chrono::duration<double, std::nano>{static_cast<double>(sum_)};
  }

  /// The time that a share `p` of the counted times did not exceed: quantile(0.99). It is the upper edge of a bucket,
  /// but max() at most. Zero if nothing was counted. `p` outside 0 … 1 counts as the nearer end, and NaN as 0.
  duration quantile(double p) const noexcept;

  /// How many times were less than `limit`. Exact if `limit` is 256 ns times a power of two, from 512 ns on. Any other
  /// `limit` is rounded down to the edge of a bucket.
  std::uint64_t count_below(duration limit) const noexcept;

 private:
  // Times are counted in units of 256 ns. Four buckets of one unit, then four for each power of two.
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
