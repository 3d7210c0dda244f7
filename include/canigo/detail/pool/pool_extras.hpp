#pragma once

#include "canigo/detail/base/block_cache.hpp"
#include "canigo/detail/pool/pool_groups.hpp"
#include "canigo/detail/pool/task_alarm.hpp"
#include "canigo/detail/pool/task_life.hpp"
#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <cstddef>

namespace canigo::detail {

class pool_core;
class pool_task;

/// The fields that a task needs only if it has options other than its priority.
struct task_extras : pool_group_member, task_life {
  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* p, std::size_t size) noexcept { deallocate_block(p, size); }

  task_extras(pool_core& c, pool_task& t) noexcept : alarm{c, t} {}

  task_alarm alarm;
  time_point queued_at{};
  duration ran{};
  name_stats* name = nullptr;
};

static_assert(sizeof(task_extras) <= block_size);

}  // namespace canigo::detail
