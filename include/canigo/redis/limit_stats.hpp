#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

namespace canigo::redis {

/// The statistics of one alternative of a limit in Redis.
struct alternative_state {
  std::string name = {};
  std::uint64_t held = 0;                 ///< permits of this process in use; counted only if the alternative has a cap
  std::uint64_t held_by_all = 0;          ///< permits of all processes in use, in the latest answer of Redis
  std::uint64_t concurrency = unlimited;  ///< max number of permits in use, in all processes
  std::uint64_t granted = 0;              ///< number of permits granted to this process so far
  time_point paused_until = time_point::min();  ///< when the pause of the alternative ends; in the past: not paused
};

/// The statistics of a limit in Redis: how the requests of this process ended, and the state of the limit in the latest
/// answer of Redis.
struct limit_stats : queue_stats {
  std::uint64_t held = 0;             ///< the sum of the weights of this process's permits; without a cap, their number
  std::uint64_t round_trips = 0;      ///< number of calls of the Redis script that were answered
  std::uint64_t failed_calls = 0;     ///< number of calls of the Redis script that were not answered
  std::uint64_t lost_leases = 0;      ///< permits whose lease ended while they were held
  std::uint64_t idle = 0;             ///< permits or tokens that this process holds in reserve (option `horizon`)
  std::uint64_t granted_ahead = 0;    ///< requests granted from the reserve of this process, without a round trip
  std::uint64_t granted_locally = 0;  ///< requests granted without Redis, because `on_failure` allows it
  wait_histogram round_trip;          ///< how long the answered calls of the Redis script took
  bool available = true;              ///< whether the last call of the Redis script was answered
  bool has_session = false;           ///< whether Redis has a session of this process, also for some time after stop()
  /// why the last call of the Redis script failed, why no messages of Redis arrive, or that the connection is too slow
  /// for the lease; empty: no problem
  std::string last_error = {};
  std::error_code last_error_code = {};
  std::uint64_t held_by_all = 0;   ///< the sum of the weights of all processes' permits, in the latest answer of Redis
  std::size_t waiting_of_all = 0;  ///< number of waiting requests of all processes, in the latest answer of Redis
  duration quarantine{};           ///< how much longer Redis grants nothing (its quarantine), in its latest answer
  /// the end of the limit's pause; an instant in the past means: not paused
  time_point paused_until = time_point::min();
  std::vector<alternative_state> alternatives = {};
};

}  // namespace canigo::redis
