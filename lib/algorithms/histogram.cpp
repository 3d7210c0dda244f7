#include "canigo/algorithms/histogram.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

namespace canigo {

void wait_histogram::merge(const wait_histogram& other) noexcept {
  for (std::size_t i = 0; i < buckets; ++i) counts_[i] += other.counts_[i];
  sum_ += other.sum_;
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t wait_histogram::count_below(duration limit) const noexcept {
  if (limit <= duration::zero()) return 0;
  return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(bucket_of(limit)),
                         std::uint64_t{0});
}

duration wait_histogram::quantile(double p) const noexcept {
  const double share = p > 0 ? std::min(p, 1.0) : 0.0;
  const double rank = std::ceil(share * static_cast<double>(count_));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i + 1 < buckets; ++i) {
    seen += counts_[i];
    if (seen == 0 || static_cast<double>(seen) < rank) continue;
    const std::size_t next = i + 1;
    const std::uint64_t edge = next < 4 ? next : (4 + next % 4) << (next / 4 - 1);
    return std::min(max_, duration{static_cast<std::int64_t>((edge << unit_bits) - 1)});
  }
  return max_;
}

}  // namespace canigo
