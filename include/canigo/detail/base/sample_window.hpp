#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// Statistics of the calls that ended in a span of time: their number, their latencies, and the max number of calls
/// under way at once.
///
/// The median is computed from a histogram of eight buckets per power of two, from 64 ns to ten hours. Threads: not
/// thread-safe. Allocates: never.
class sample_window {
 public:
  void open(time_point now) noexcept {
    *this = {};
    since_ = now;
    is_open_ = true;
  }
  bool is_open() const noexcept { return is_open_; }

  void add(duration latency, bool is_ok, std::uint64_t in_flight) noexcept {
    peak_ = std::max(peak_, in_flight);
    if (!is_ok) {
      ++dropped_;
      dropped_ns_ += static_cast<double>(std::max(latency, duration::zero()).count());
      return;
    }
    const auto ns = static_cast<std::uint64_t>(std::max(latency, duration::zero()).count());
    ++counts_[bucket_of(ns >> unit_bits)];
    ++ok_;
    sum_ns_ += static_cast<double>(ns);
  }

  double age_ns(time_point now) const noexcept {
    return now > since_ ? static_cast<double>((now - since_).count()) : 0;
  }
  std::uint64_t ok() const noexcept { return ok_; }
  std::uint64_t all() const noexcept { return ok_ + dropped_; }
  /// dropped_share() is the share of dropped calls in the number of all calls, from 0 to 1. dropped_time_share() is the
  /// share of dropped calls in the total latency of all calls.
  double dropped_share() const noexcept {
    return all() == 0 ? 0 : static_cast<double>(dropped_) / static_cast<double>(all());
  }
  double dropped_time_share() const noexcept { return dropped_ns_ == 0 ? 0 : dropped_ns_ / (dropped_ns_ + sum_ns_); }
  /// The max number of calls that were under way when a call started.
  std::uint64_t peak() const noexcept { return peak_; }
  double sum_ns() const noexcept { return sum_ns_; }
  /// The mean latency of calls that were not dropped; 0 if there are none.
  double mean_ns() const noexcept { return ok_ == 0 ? 0 : sum_ns_ / static_cast<double>(ok_); }
  /// The median latency of calls that were not dropped; 0 if there are none.
  double median_ns() const noexcept;

 private:
  static constexpr unsigned unit_bits = 6;
  static constexpr unsigned octaves = 36;
  static constexpr std::size_t buckets = 8 + 8 * octaves;

  static std::size_t bucket_of(std::uint64_t units) noexcept {
    if (units < 8) return units;
    const auto octave = static_cast<unsigned>(std::bit_width(units)) - 4;
    return std::min<std::size_t>(8 + 8 * octave + ((units >> octave) & 7), buckets - 1);
  }

  std::array<std::uint32_t, buckets> counts_{};
  std::uint64_t ok_ = 0, dropped_ = 0, peak_ = 0;
  double sum_ns_ = 0, dropped_ns_ = 0;
  time_point since_{};
  bool is_open_ = false;
};

}  // namespace canigo::detail
