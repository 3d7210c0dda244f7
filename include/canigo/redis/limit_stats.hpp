#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace canigo::redis {

/// The requests of this process to a limit in Redis, by how they ended, and the state in the last answer of Redis.
struct limit_stats : queue_stats {
  std::uint64_t held = 0;             ///< weight of this process's permits; without a cap their number
  std::uint64_t round_trips = 0;      ///< calls of the script that were answered
  std::uint64_t failed_calls = 0;     ///< calls of the script that were not answered
  std::uint64_t lost_leases = 0;      ///< permits whose lease ended while they were held
  std::uint64_t idle = 0;             ///< permits that are kept here, or tokens that were taken ahead
  std::uint64_t granted_ahead = 0;    ///< requests granted out of these, without a round trip
  std::uint64_t granted_locally = 0;  ///< requests granted without Redis, because `on_failure` says so
  wait_histogram round_trip;          ///< how long the answered calls took
  bool available = true;              ///< the last call was answered
  std::string last_error = {};        ///< why the last call failed, or why no messages arrive; empty: all is well
  std::error_code last_error_code = {};
  std::uint64_t held_by_all = 0;   ///< weight of all processes' permits, at the last answer
  std::size_t waiting_of_all = 0;  ///< waiting requests of all processes, at the last answer
  duration quarantine{};           ///< how long no request is granted, at the last answer
};

}  // namespace canigo::redis
