#pragma once

#include "canigo/cancel.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/jobs/job_info.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace canigo::jobs::detail {

/// A job that a service has claimed, and whose result the service has not reported to the store yet.
struct running_job {
  /// Why the handler must end early.
  enum class reason : std::uint8_t {
    none,
    cancelled,  ///< the job was cancelled
    expired,    ///< the deadline of the job has passed
    lost,       ///< another process may have claimed the job
  };

  running_job(claimed_job c, time_source& t, duration lease_span) : claimed{std::move(c)}, time{t} {
    const time_point now = t.now();
    renewed_at = now;
    renew_at = saturating_add(now, lease_span / 3);
  }

  void end(reason why) {
    reason none = reason::none;
    if (why_ended.compare_exchange_strong(none, why)) stop.cancel();
  }

  const claimed_job claimed;
  time_source& time;
  time_point deadline = time_point::max();
  cancel_source stop;
  std::atomic<reason> why_ended{reason::none};
  std::atomic<const task_context*> context{nullptr};  // the operation that runs the job; null: the job has not begun

  canigo::detail::mutex mutex;
  std::optional<duration> snooze;
  std::optional<std::string> progress;  // progress that the handler has reported, and that is not in the store yet

  // The service's lock guards the following members.
  time_point renewed_at;
  time_point renew_at;
  bool is_renewing = false;
  bool is_reporting = false;  // whether the handler has ended, but its end is not stored yet
};

}  // namespace canigo::jobs::detail
