#pragma once

#include <utility>

namespace canigo::detail {

class pool_core;

/// One turn of the loop on this thread, for a pool: how much of it is left, and whether the clock was read in it.
class pool_turn {
 public:
  static constexpr int most_tasks = 64;  // that workers may begin in one

  explicit pool_turn(const pool_core& c) noexcept : pool_{&c}, outer_{std::exchange(innermost_, this)} {}
  ~pool_turn() { innermost_ = outer_; }
  pool_turn(const pool_turn&) = delete;
  pool_turn& operator=(const pool_turn&) = delete;

  /// The innermost one on this thread, or nullptr.
  static pool_turn* here() noexcept { return innermost_; }
  /// Whether that is one of `c`.
  static bool is_of(const pool_core& c) noexcept {
    const pool_turn* t = innermost_;
    return t != nullptr && t->pool_ == &c;
  }
  /// Whether to look at the clock for `c`, which is done once in a turn of its own.
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
