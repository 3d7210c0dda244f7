#pragma once

#include "canigo/detail/pool/task_life.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <exception>

namespace canigo::detail {

/// How an operation has ended, and what that counts as. It has no lock and no executor.
struct attempt_end {
  /// Call it in a handler of the exception that the operation threw. If `c` had asked the operation to end, the
  /// exception counts as that cause. For `a || b` makes an exception of its own of a cancellation, and a channel makes
  /// an error of it.
  void caught(task_life::cause c) noexcept {
    error = std::current_exception();
    cause = c;
  }
  /// Decides what the end means for the worker, and for the task that has this life, if it has one. Calls the user's
  /// predicates, so no lock is held.
  void weigh(const restart_policy& restart, const task_life* life) noexcept {
    is_fatal = may_retry = false;
    if (error) [[unlikely]]
      weigh_error(restart, life);
  }
  /// Takes the exception out.
  std::exception_ptr take_error() noexcept {
    std::exception_ptr e = std::move(error);
    error = nullptr;
    return e;
  }

  std::exception_ptr error;  // null: it returned
  task_life::cause cause = task_life::cause::none;
  bool is_fatal = false;   // the worker is to start again
  bool may_retry = false;  // the task is worth another attempt
  duration least_delay{};  // the least delay before that attempt

 private:
  void weigh_error(const restart_policy& restart, const task_life* life) noexcept;
};

}  // namespace canigo::detail
