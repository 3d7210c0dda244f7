#include "canigo/detail/base/sample_window.hpp"

namespace canigo::detail {

double sample_window::median_ns() const noexcept {
  if (ok_ == 0) return 0;
  // Computes the median of the latencies, assuming that those in a bucket are evenly distributed.
  const double rank = static_cast<double>(ok_) / 2;
  double below = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    const double here = counts_[i];
    if (below + here < rank || here == 0) {
      below += here;
      continue;
    }
    const std::size_t octave = i < 8 ? 0 : (i - 8) / 8;
    const double from = i < 8 ? static_cast<double>(i) : static_cast<double>((8 + (i - 8) % 8) << octave);
    const double width = static_cast<double>(std::uint64_t{1} << octave);
    return (from + width * (rank - below) / here) * static_cast<double>(1 << unit_bits);
  }
  return 0;
}

}  // namespace canigo::detail
