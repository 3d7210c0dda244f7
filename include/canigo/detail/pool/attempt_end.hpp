#pragma once

#include "canigo/detail/pool/task_life.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <exception>

namespace canigo::detail {

/// How an operation ended, and what that means for its task and worker. It has no lock and no executor.
struct attempt_end {
  /// Call it in the catch block for an exception of the operation. If the operation had been asked to end because of
  /// `c`, the exception counts as the effect of `c`. For example, `a || b` and channels react to a cancellation with
  /// exceptions of their own types.
  void caught(task_life::cause c) noexcept {
    error = std::current_exception();
    cause = c;
  }
  /// Decides whether the worker must restart, and whether another attempt of the task is useful. `life`: the state of
  /// the task, or null. This function calls predicates of the user, so call it without a lock.
  void weigh(const restart_policy& restart, const task_life* life) noexcept {
    is_fatal = may_retry = false;
    if (error) [[unlikely]]
      weigh_error(restart, life);
  }
  /// Returns the exception of the operation, and resets it.
  std::exception_ptr take_error() noexcept {
    std::exception_ptr e = std::move(error);
    error = nullptr;
    return e;
  }

  std::exception_ptr error;  // the exception of the operation; null: it returned normally
  task_life::cause cause = task_life::cause::none;
  bool is_fatal = false;   // whether the worker must restart after this operation
  bool may_retry = false;  // whether another attempt of the task is useful
  duration least_delay{};  // the minimum delay before the next attempt

 private:
  void weigh_error(const restart_policy& restart, const task_life* life) noexcept;
};

}  // namespace canigo::detail
