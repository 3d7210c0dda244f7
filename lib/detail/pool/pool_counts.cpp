#include "canigo/detail/pool/pool_counts.hpp"

namespace canigo::detail {

void pool_counts::add_end(task_state s, name_stats* name) noexcept {
  if (name != nullptr) ++(s == task_state::succeeded ? name->succeeded : name->failed);
  switch (s) {
    case task_state::succeeded:
      ++report.succeeded;
      break;
    case task_state::failed:
      ++report.failed;
      break;
    case task_state::cancelled:
      ++report.cancelled;
      break;
    case task_state::timed_out:
      ++report.timed_out;
      break;
    default:
      ++report.stopped;
      break;
  }
}

void pool_counts::write(pool_stats& s) const noexcept {
  s.submitted = report.submitted;
  s.succeeded = report.succeeded;
  s.failed = report.failed;
  s.cancelled = report.cancelled;
  s.timed_out = report.timed_out;
  s.stopped = report.stopped;
  s.rejected = rejected;
  s.evicted = evicted;
  s.retries = retries;
  s.restarts = restarts;
  s.overdue_total = overdue;
}

}  // namespace canigo::detail
