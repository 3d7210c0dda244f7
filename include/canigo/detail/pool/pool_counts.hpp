#pragma once

#include "canigo/pool.hpp"

#include <cstdint>

namespace canigo::detail {

/// The statistics of a pool since its construction.
struct pool_counts {
  stop_report report;  // the counts of tasks that the pool accepted
  std::uint64_t rejected = 0;
  std::uint64_t evicted = 0;
  std::uint64_t retries = 0;
  std::uint64_t restarts = 0;
  std::uint64_t overdue = 0;

  /// Counts an accepted task that has ended in state `s`. `name` is the counter for the task's name; null if the task
  /// has no name.
  void add_end(task_state s, name_stats* name) noexcept;
  void write(pool_stats& s) const noexcept;
};

}  // namespace canigo::detail
