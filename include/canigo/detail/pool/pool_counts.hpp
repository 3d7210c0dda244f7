#pragma once

#include "canigo/pool.hpp"

#include <cstdint>

namespace canigo::detail {

/// The work of a pool since it was made, in numbers.
struct pool_counts {
  stop_report report;  // the report on the tasks that the pool took
  std::uint64_t rejected = 0;
  std::uint64_t evicted = 0;
  std::uint64_t retries = 0;
  std::uint64_t restarts = 0;
  std::uint64_t overdue = 0;

  /// Counts a task that the pool took and that has ended as `s`. `name` counts the tasks of its name, if it has one.
  void add_end(task_state s, name_stats* name) noexcept;
  void write(pool_stats& s) const noexcept;
};

}  // namespace canigo::detail
