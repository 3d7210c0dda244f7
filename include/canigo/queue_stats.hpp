#pragma once

#include "canigo/histogram.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo {

/// One priority class: how many wait, how many were granted, and how long these waited.
struct class_stats {
  std::size_t waiting = 0;
  std::uint64_t granted = 0;
  wait_histogram wait;  ///< of the granted ones, from call to grant
};

/// All requests so far, by how they ended. Consistent: taken in one step.
///
/// requested = waiting + granted + cancelled + timed_out + evicted + rejected + stopped, at every moment.
struct queue_stats {
  std::vector<class_stats> classes;
  std::size_t waiting = 0;
  std::uint64_t requested = 0;
  std::uint64_t granted = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;  ///< the deadline passed while it waited
  std::uint64_t evicted = 0;
  std::uint64_t rejected = 0;  ///< refused at once: queue full, deadline unreachable, argument out of range
  std::uint64_t stopped = 0;
};

}  // namespace canigo
