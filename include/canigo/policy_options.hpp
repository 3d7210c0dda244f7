#pragma once

#include "canigo/adaptive_limit.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <optional>
#include <string>

namespace canigo {

/// The parts of a policy, in the order in which a call meets them. Each is optional, and does what it does alone.
struct policy_options {
  std::optional<duration> timeout = {};                 ///< of a whole call with all its parts; more than 0; max: none
  std::optional<circuit_breaker_options> breaker = {};  ///< refuses calls at once while the upstream fails
  /// Copies of a slow call, for idempotent work only. `group` must be null. Without a `budget` or a `window`, the
  /// policy has one of its own.
  std::optional<hedge_options> hedge = {};
  /// Without a `budget`, the policy has one of its own. Without `retry_if`, is_failure_of_callee() decides.
  std::optional<retry_policy> retry = {};
  /// How many operations are under way; finds its own value. As many priorities as the limits have, if there are any.
  std::optional<adaptive_limit_options> adaptive = {};
  std::optional<limiter_options> limits = {};    ///< rates, and a cap on operations that are under way
  std::optional<duration> attempt_timeout = {};  ///< of each operation, after the limits; more than 0; max: none
  std::string name = {};  ///< for the texts of errors; also that of parts without a name of their own
};

}  // namespace canigo
