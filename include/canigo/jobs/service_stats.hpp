#pragma once

#include "canigo/jobs/job_info.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace canigo::jobs {

/// The jobs of a queue, as one service ran them. The counts rise from the start of the service on.
struct job_queue_stats {
  std::string queue;
  std::size_t running = 0;       ///< jobs that were claimed here and not reported yet
  std::uint64_t claimed = 0;     ///< attempts that were begun
  std::uint64_t done = 0;        ///< runs with a result that counts
  std::uint64_t failed = 0;      ///< attempts that failed, and are followed by another one
  std::uint64_t discarded = 0;   ///< jobs that are dead since their last attempt
  std::uint64_t snoozed = 0;     ///< jobs that wait again as their handler wants
  std::uint64_t given_back = 0;  ///< jobs that the stop of the service ended
  std::uint64_t lost = 0;        ///< runs that do not count: the lease was lost
  /// The jobs of all processes, as the store counted them after an earlier call of stats(). Empty: unknown.
  std::optional<queue_count> in_store = {};
};

/// The statistics of a service.
struct service_stats {
  std::vector<job_queue_stats> queues;  ///< in the order of the options
  std::uint64_t store_failures = 0;     ///< calls of the store that failed, except those of users
  /// Why the calls of the store fail, or what is wrong although they succeed, with the place and an advice. Empty: all
  /// is well. If there are several causes, it is the last one.
  std::string last_error = {};
  std::error_code last_error_code = {};  ///< empty if the exception had none
  std::string store_engine = {};         ///< the database and its version; empty: unknown yet
};

}  // namespace canigo::jobs
