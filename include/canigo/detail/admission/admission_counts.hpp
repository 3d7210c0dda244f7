#pragma once

#include "canigo/error.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// Counts a request that was refused immediately. If rejection_stats has no counter for the cause `why`, the request
/// counts as `other`. A negative `why` counts as `not_there`: a failed try_acquire().
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

/// Counts how the requests of an engine ended. Allocates: in the constructor.
class admission_counts {
 public:
  explicit admission_counts(int priorities);

  /// Counts a request that was granted without a wait.
  void add_grant_at_once(int priority) noexcept { ++at_once_[static_cast<std::size_t>(priority)]; }
  void add_grant(int priority, duration waited) noexcept;
  void add_cancelled() noexcept { ++counts_.cancelled; }
  /// Counts a request that was refused, or that waited without success.
  void add_failure(errc why) noexcept;

  /// Writes the counts to `s`. Precondition: `s.classes` already has all classes, and the number of waiters of each
  /// class.
  void write(queue_stats& s) const noexcept;

 private:
  queue_stats counts_;  // counts all requests except immediate grants
  // the number of immediate grants of each class; stored apart from counts_, so that such a grant costs one increment
  std::vector<std::uint64_t> at_once_;
};

}  // namespace canigo::detail
