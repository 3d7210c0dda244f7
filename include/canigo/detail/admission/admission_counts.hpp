#pragma once

#include "canigo/error.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// Counts a request that was refused at once. `why` may be an error of none of the named causes.
inline void count_rejection(queue_stats& s, errc why) noexcept {
  ++s.rejected;
  rejection_stats& r = s.rejections;
  switch (why) {
    case errc::queue_full:
      ++r.queue_full;
      break;
    case errc::deadline_unreachable:
      ++r.unreachable;
      break;
    case errc::too_large:
      ++r.too_large;
      break;
    case errc::invalid_priority:
    case errc::invalid_argument:
      ++r.invalid;
      break;
    default:
      ++(static_cast<int>(why) < 0 ? r.not_there : r.other);
      break;
  }
}

/// How many requests of an engine ended in which way. Allocates: in the constructor.
class admission_counts {
 public:
  explicit admission_counts(int priorities);

  /// Counts a request that was granted without a wait.
  void add_grant_at_once(int priority) noexcept { ++at_once_[static_cast<std::size_t>(priority)]; }
  void add_grant(int priority, duration waited) noexcept;
  void add_cancelled() noexcept { ++counts_.cancelled; }
  /// Counts a request that was refused, or has waited without success.
  void add_failure(errc why) noexcept;

  /// Writes the counts to `s`, which already has its classes, and the number of waiters of each.
  void write(queue_stats& s) const noexcept;

 private:
  queue_stats counts_;                  // the counts of requests that had to wait, and of requests that failed
  std::vector<std::uint64_t> at_once_;  // grants at once by class; apart from `counts_`, so each costs one increment
};

}  // namespace canigo::detail
