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

/// How requests that a limit in shadow mode has granted at once would have ended.
///
/// A request that would have waited counts when its wait would have ended.
struct shadow_stats {
  std::uint64_t waited = 0;   ///< would have been granted after a wait
  std::uint64_t refused = 0;  ///< would have failed: too large, not there at once, queue full, evicted, or too late
  std::uint64_t shed = 0;     ///< would have been shed
  wait_histogram wait;        ///< of those that would have waited
};

/// Requests that were refused at once, by the cause.
struct rejection_stats {
  std::uint64_t not_there = 0;    ///< try_acquire() found too little, or a waiter before it
  std::uint64_t queue_full = 0;   ///< of the limit, or of its flow
  std::uint64_t unreachable = 0;  ///< even the least wait would have ended after the deadline
  std::uint64_t too_large = 0;    ///< more than the limit, or its flow, can ever give
  std::uint64_t invalid = 0;      ///< an argument out of range
  std::uint64_t other = 0;        ///< no memory, for example
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
  std::uint64_t rejected = 0;  ///< refused at once; the sum of `rejections`
  std::uint64_t stopped = 0;
  std::uint64_t shed = 0;  ///< ended because the limit was overloaded
  rejection_stats rejections;
};

}  // namespace canigo
