#pragma once

#include "canigo/backoff.hpp"
#include "canigo/retry_budget.hpp"

#include <cstdint>
#include <exception>

namespace canigo {

/// Whether and when a failed operation is tried again.
///
/// Trivially destructible on purpose, so that it can stand in a co_await expression under every compiler.
struct retry_policy {
  /// Attempts in all, the first one included. 0: a task takes the whole policy of its pool, and a pool makes one
  /// attempt.
  std::uint32_t attempts = 0;
  canigo::backoff backoff = {};  ///< between one attempt and the next
  /// Which failures are worth another attempt. Null: all but operation_aborted. It is called with the exception of the
  /// attempt, or with errc::timed_out if the attempt took too long. It is not called once the task is cancelled. No
  /// lock is held.
  bool (*retry_if)(const std::exception_ptr& error) = nullptr;
  retry_budget* budget = nullptr;  ///< shared by all callers of the same service; must outlive them
};

}  // namespace canigo
