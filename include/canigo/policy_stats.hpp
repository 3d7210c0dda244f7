#pragma once

#include "canigo/algorithms/histogram.hpp"

#include <cstdint>

namespace canigo {

/// The calls of a policy, by their ends. A call counts once among the first six, when it ends.
struct policy_stats {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;        ///< with an error of the operation
  std::uint64_t timed_out = 0;     ///< at the timeout, at the deadline, or with too little time left for an operation
  std::uint64_t cancelled = 0;     ///< by the caller
  std::uint64_t refused = 0;       ///< by a limit, before any operation was started
  std::uint64_t circuit_open = 0;  ///< by the circuit breaker
  std::uint64_t under_way = 0;     ///< calls that have not ended
  std::uint64_t operations = 0;    ///< operations that were started, with retries and copies
  wait_histogram took;             ///< from the call to its result, of those that succeeded
};

}  // namespace canigo
