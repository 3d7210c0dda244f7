#pragma once

#include "canigo/histogram.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace canigo::redis {

/// What became of a process's requests to a limit in Redis, and what Redis said of it last.
struct limit_stats : queue_stats {
  std::uint64_t held = 0;             ///< weight of this process's permits
  std::uint64_t round_trips = 0;      ///< calls of the script that were answered
  std::uint64_t failed_calls = 0;     ///< calls that were not
  std::uint64_t lost_leases = 0;      ///< permits whose lease ended while they were held
  std::uint64_t idle = 0;             ///< permits that are kept here, or tokens that were taken ahead
  std::uint64_t granted_ahead = 0;    ///< out of those: without a round trip
  std::uint64_t granted_locally = 0;  ///< without Redis, where `on_failure` says so
  wait_histogram round_trip;          ///< how long those took that were answered
  bool available = true;              ///< the last call was answered
  std::string last_error = {};  ///< why it was not, or why nothing is heard of what is published; empty: all is well
  std::error_code last_error_code = {};
  std::uint64_t held_by_all = 0;   ///< weight of all processes' permits, at the last answer
  std::size_t waiting_of_all = 0;  ///< of all processes, at the last answer
  duration quarantine{};           ///< nobody is let in for so long, at the last answer
};

}  // namespace canigo::redis
