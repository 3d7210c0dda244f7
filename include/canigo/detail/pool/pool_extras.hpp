#pragma once

#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/pool/pool_groups.hpp"
#include "canigo/detail/pool/task_alarm.hpp"
#include "canigo/pool_stats.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// What only some tasks have.
struct task_extras : pool_group_member {
  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* p, std::size_t size) noexcept { deallocate_block(p, size); }

  task_extras(pool_core& c, pool_task& t) noexcept : alarm{c, t} {}

  task_alarm alarm;
  time_point deadline = time_point::max();
  time_point due_at = time_point::max();  // of the attempt that runs
  time_point queued_at{};
  time_point started_at{};  // of the last attempt
  duration timeout = duration::max();
  duration delay{};
  duration ran{};
  retry_policy retry;
  name_stats* name = nullptr;
  std::atomic<std::uint32_t> attempts{0};  // written under the lock
  bool is_late = false;                    // the attempt that runs is over its time
};

static_assert(sizeof(task_extras) <= block_size);

}  // namespace canigo::detail
