#pragma once

#include <utility>

namespace canigo::detail {

class pool_core;

/// One turn: one call of a pool's handler on this thread. This object has the number of tasks that the turn may still
/// run, and notes whether the turn has read the clock.
class pool_turn {
 public:
  static constexpr int most_tasks = 64;  // max number of tasks that workers may begin in one turn

  explicit pool_turn(const pool_core& c) noexcept : pool_{&c}, outer_{std::exchange(innermost_, this)} {}
  ~pool_turn() { innermost_ = outer_; }
  pool_turn(const pool_turn&) = delete;
  pool_turn& operator=(const pool_turn&) = delete;

  /// The turn that began last on this thread and has not ended, or nullptr.
  static pool_turn* here() noexcept { return innermost_; }
  /// Whether the innermost turn on this thread is a turn of `c`.
  static bool is_of(const pool_core& c) noexcept {
    const pool_turn* t = innermost_;
    return t != nullptr && t->pool_ == &c;
  }
  /// Whether the clock must be read for `c`. In a turn of `c`, only the first call returns true.
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
