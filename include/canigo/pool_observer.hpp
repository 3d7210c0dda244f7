#pragma once

#include "canigo/task_state.hpp"
#include "canigo/time.hpp"

#include <cstdint>
#include <string_view>

namespace canigo {

/// One task of a pool, at the moment of a call.
struct task_event {
  std::uint64_t id = 0;
  std::string_view name;  ///< valid during the call
  int priority = 0;
  std::uint64_t group = 0;
  std::uint32_t attempt = 0;  ///< 1 is the first; 0 if it never ran
  task_state state = task_state::queued;
  duration waited{};  ///< in the queue, before the last attempt
  duration ran{};     ///< the last attempt
};

/// Learns what happens in a pool, for metrics and logs. A pool that has no observer pays one branch for it.
///
/// Threads: any, several at once; no lock is held. Must not throw, and should return soon: a worker waits for it.
class pool_observer {
 public:
  virtual void attempt_started(const task_event&) noexcept {}  ///< attempt 2 and up: the one before it has failed
  virtual void task_ended(const task_event&) noexcept {}

 protected:
  ~pool_observer() = default;
};

}  // namespace canigo
