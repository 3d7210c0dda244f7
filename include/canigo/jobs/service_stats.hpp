#pragma once

#include "canigo/jobs/job_info.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace canigo::jobs {

/// The jobs of one queue that this service ran, counted from the start of the service.
struct job_queue_stats {
  std::string queue;
  std::size_t running = 0;       ///< claimed jobs whose end this service has not yet reported to the store
  std::uint64_t claimed = 0;     ///< number of attempts that began in this service
  std::uint64_t done = 0;        ///< number of runs whose result the store has accepted
  std::uint64_t failed = 0;      ///< failed attempts after which the job gets another attempt
  std::uint64_t discarded = 0;   ///< jobs that are dead after their last attempt failed
  std::uint64_t snoozed = 0;     ///< jobs that wait again because their handler called job::snooze()
  std::uint64_t given_back = 0;  ///< jobs that were given back to the store, because the service stopped
  std::uint64_t lost = 0;        ///< runs whose result does not count, because the job's lease was lost
  /// The number of jobs of all processes in this queue, by the store's latest count. A call of stats() may start a new
  /// count, but does not wait for its result. Empty: no count has succeeded yet.
  std::optional<queue_count> in_store = {};
};

/// The statistics of a service.
struct service_stats {
  std::vector<job_queue_stats> queues;  ///< one element per queue, in the order of service_options::queues
  std::uint64_t store_failures = 0;     ///< number of failed calls that the service itself made to the store
  /// The reason why calls to the store fail, or a problem that does not make these calls fail. The text names the file
  /// or server, and gives advice. Empty: there is no problem. If calls fail for several reasons, the text gives the
  /// latest one.
  std::string last_error = {};
  std::error_code last_error_code = {};  ///< the error code for `last_error`; empty if its exception had no code
  std::string store_engine = {};         ///< the database and its version; empty: not known yet
};

}  // namespace canigo::jobs
