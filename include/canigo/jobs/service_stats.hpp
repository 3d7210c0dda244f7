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
  std::size_t running = 0;       ///< jobs that were claimed here and whose end is not reported yet
  std::uint64_t claimed = 0;     ///< number of attempts that began in this service
  std::uint64_t done = 0;        ///< number of runs whose result was accepted
  std::uint64_t failed = 0;      ///< attempts that failed and are followed by another one
  std::uint64_t discarded = 0;   ///< jobs that are dead after their last attempt failed
  std::uint64_t snoozed = 0;     ///< jobs that wait again because their handler called job::snooze()
  std::uint64_t given_back = 0;  ///< jobs that were given back because the service stopped
  std::uint64_t lost = 0;        ///< runs that do not count, because their lease was lost
  /// The number of jobs of all processes, counted by the store for an earlier call of stats(). Empty: unknown.
  std::optional<queue_count> in_store = {};
};

/// The statistics of a service.
struct service_stats {
  std::vector<job_queue_stats> queues;  ///< one element per queue, in the order of service_options::queues
  std::uint64_t store_failures = 0;     ///< number of failed calls of the store, except calls that users made
  /// Why calls of the store fail, or what is wrong although they succeed. The text names the file or server, and gives
  /// advice. Empty: nothing is wrong. If there are several causes, it is the last one.
  std::string last_error = {};
  std::error_code last_error_code = {};  ///< the code of that error; empty if its exception had none
  std::string store_engine = {};         ///< the database and its version; empty: not known yet
};

}  // namespace canigo::jobs
