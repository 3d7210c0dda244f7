#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/time.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace canigo::jobs {

namespace detail {
struct running_job;
}

/// A handler throws this exception to report that another attempt is useless. The job then becomes dead without further
/// attempts.
class hopeless : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// Access of a handler to the job that it runs. Valid until the handler has ended.
///
/// Threads: any thread may call any member at any time.
class job {
 public:
  explicit job(detail::running_job& r) noexcept : running_{&r} {}
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  job_id id() const noexcept;
  const std::string& queue() const noexcept;
  const std::string& kind() const noexcept;
  const std::string& payload() const noexcept;
  /// The number of this attempt; the first one is 1.
  std::uint32_t attempt() const noexcept;
  std::uint32_t max_attempts() const noexcept;
  /// How many times a process crashed, or lost the job's lease, while it ran this job.
  std::uint32_t crashes() const noexcept;
  /// The lease of this run. Its token rises with each run of the job, so a database can refuse writes with an older
  /// token.
  jobs::lease lease() const noexcept;
  /// The instant at which this run is cancelled, measured by the time source of the service; time_point::max() if the
  /// run has no time limit.
  time_point deadline() const noexcept;

  /// Whether the handler should end: the job was cancelled, its time limit passed, its lease is lost, or the service
  /// stops.
  bool stop_requested() const noexcept;
  /// Makes the job wait for `d` (0 or more) after the handler returns, and then run again. A run that ends with a
  /// snooze does not count as an attempt. Only the last call in a run has an effect. Throws errc::invalid_argument for
  /// a negative `d`.
  void snooze(duration d);
  /// Stores the progress of a running job in job_info::result. The store gets the progress with the next renewal of the
  /// lease.
  void progress(std::string text);

 private:
  detail::running_job* running_;
};

}  // namespace canigo::jobs
