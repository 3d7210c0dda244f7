#pragma once

#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo {

class flow;

/// The options of one operation in a pool. Trivially destructible; see retry_policy.
struct task_options {
  int priority = 0;                      ///< class, 0 (first) … priorities-1
  std::optional<duration> timeout = {};  ///< of each attempt, instead of the pool's; more than 0; max: none
  duration delay = duration::zero();     ///< before it is queued; 0 or more
  std::uint64_t group = 0;               ///< for cancel_group and wait_group; 0: none
  std::string_view name = {};            ///< for the statistics; copied; the first 255 of a pool are told apart
  retry_policy retry = {};               ///< with 0 attempts, the default: the pool's policy
  deadline_point deadline = {};          ///< of all attempts and the waiting together
  const canigo::flow* flow = nullptr;    ///< the share of the pool that it takes; null: a nameless flow of weight 1
};

}  // namespace canigo
