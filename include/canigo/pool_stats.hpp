#pragma once

#include "canigo/histogram.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace canigo {

/// An operation that still runs although its time is up.
struct overdue_task {
  std::uint64_t id = 0;
  std::string name;
  duration age{};  ///< since this attempt started
  std::size_t worker = 0;
};

/// The statistics of all operations with one name. Names beyond the first 255 of a pool are counted together as
/// "(other)".
struct name_stats {
  std::string name;
  std::uint64_t attempts = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< ended in any other way
  wait_histogram waited;     ///< in the queue, per attempt
  wait_histogram ran;        ///< per attempt
};

/// A pool at one moment. Consistent: taken in one step.
///
/// submitted = succeeded + failed + cancelled + timed_out + stopped + queued + delayed + held_back + running. Here
/// `running` is `working` without the overdue operations whose task has ended.
struct pool_stats {
  std::size_t working = 0;    ///< workers that run an operation
  std::size_t sleeping = 0;   ///< workers that wait for one
  std::size_t repairing = 0;  ///< workers that make, check or destroy their resource, or wait to start again
  std::size_t queued = 0;     ///< available: could run now
  std::size_t delayed = 0;    ///< will be queued later: delays, and attempts that wait for their turn
  std::size_t held_back = 0;  ///< producers that wait for room in the queue
  std::size_t resources = 0;  ///< of a resource_pool
  std::vector<std::size_t> queued_by_class;
  /// How long the longest queued task has waited; too long by one turn of a worker at most.
  duration oldest_wait{};

  std::uint64_t submitted = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;
  std::uint64_t stopped = 0;
  std::uint64_t rejected = 0;         ///< never submitted: the queue was full, or the pool stopped
  std::uint64_t evicted = 0;          ///< counted in `failed`, too
  std::uint64_t retries = 0;          ///< attempts after the first
  std::uint64_t restarts = 0;         ///< of workers; with the one too many, which has stopped the pool instead
  std::uint64_t overdue_total = 0;    ///< tasks whose caller was told before the operation had ended
  std::vector<overdue_task> overdue;  ///< now
  std::vector<name_stats> names;
};

}  // namespace canigo
