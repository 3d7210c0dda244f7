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

/// The fate that requests would have had which a limit in shadow mode has let go.
///
/// A request that would have waited counts when its wait would have ended.
struct shadow_stats {
  std::uint64_t waited = 0;   ///< would have been granted after a wait
  std::uint64_t refused = 0;  ///< would have failed: too large, not there at once, queue full, evicted, or too late
  std::uint64_t shed = 0;     ///< would have been shed
  wait_histogram wait;        ///< of those that would have waited
};

/// All requests so far, by how they ended. Consistent: taken in one step.
///
/// requested = waiting + granted + cancelled + timed_out + evicted + rejected + stopped + shed, at every moment.
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
  std::uint64_t shed = 0;  ///< ended because the limit was overloaded
};

}  // namespace canigo
