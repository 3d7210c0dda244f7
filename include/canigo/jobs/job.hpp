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

/// A handler throws this to say that another attempt is of no use: the job is dead at once.
class hopeless : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// Lets a handler ask about the job that it runs. Valid until the handler has ended.
///
/// Threads: any, all members, at once.
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
  /// How often a process ended, or lost its lease, while it ran the job.
  std::uint32_t crashes() const noexcept;
  /// The token rises with each run. A database that the handler writes to can refuse what comes with an older one.
  jobs::lease lease() const noexcept;
  /// When the run is cancelled; time_point::max() if it has no time limit. By the time source of the service.
  time_point deadline() const noexcept;

  /// Whether the run should end: the job was cancelled, its time is over, its lease is lost, or the service stops.
  bool stop_requested() const noexcept;
  /// Once the handler returns, the job waits for `d`, 0 or more, and runs again. That uses up no attempt. The last
  /// call counts. Throws errc::invalid_argument.
  void snooze(duration d);
  /// Notes how far the job is: job_info::result says so while it runs. It is written with the next renewal of the
  /// lease.
  void progress(std::string text);

 private:
  detail::running_job* running_;
};

}  // namespace canigo::jobs
