#pragma once

#include "canigo/backoff.hpp"
#include "canigo/retry_budget.hpp"

#include <cstdint>
#include <exception>

namespace canigo {

/// Whether and when an operation that failed is tried again.
///
/// Trivially destructible on purpose, so that it can stand in a co_await expression under every compiler.
struct retry_policy {
  std::uint32_t attempts = 0;  ///< the first one included; 0: what the pool says, and there 1
  canigo::backoff backoff = {};
  /// Which failures are worth another attempt; none given: all but operation_aborted. It is shown what the attempt
  /// threw, or errc::timed_out where that was over its time, and is not asked once the task is cancelled. Called with
  /// no lock held.
  bool (*retry_if)(const std::exception_ptr& error) = nullptr;
  retry_budget* budget = nullptr;  ///< shared by all that call the same service; must outlive them
};

}  // namespace canigo
