#pragma once

#include <utility>

namespace canigo::detail {

class pool_core;

/// One turn: one call of a pool's handler on this thread. This object counts the tasks that the turn may still run, and
/// notes whether the turn has read the clock.
class pool_turn {
 public:
  static constexpr int most_tasks = 64;  // max number of tasks that workers may begin in one turn

  explicit pool_turn(const pool_core& c) noexcept : pool_{&c}, outer_{std::exchange(innermost_, this)} {}
  ~pool_turn() { innermost_ = outer_; }
  pool_turn(const pool_turn&) = delete;
  pool_turn& operator=(const pool_turn&) = delete;

  /// The newest turn on this thread that has not ended; nullptr if there is none.
  static pool_turn* here() noexcept { return innermost_; }
  /// Whether the newest turn on this thread that has not ended is a turn of the pool `c`.
  static bool is_of(const pool_core& c) noexcept {
    const pool_turn* t = innermost_;
    return t != nullptr && t->pool_ == &c;
  }
  /// Whether the pool `c` must read the clock. During one call of the pool's handler (a turn), only the first call of
  /// needs_time() returns true. Outside of the pool's turns, every call does.
  static bool needs_time(const pool_core& c) noexcept {
    pool_turn* t = innermost_;
    return t == nullptr || t->pool_ != &c || !std::exchange(t->has_time_, true);
  }

  int tasks_left = most_tasks;

 private:
  static constinit thread_local pool_turn* innermost_;

  const pool_core* pool_;
  pool_turn* outer_;
  bool has_time_ = false;
};

}  // namespace canigo::detail
