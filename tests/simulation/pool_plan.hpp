#pragma once

#include "canigo/pool.hpp"

#include "plan.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simulated {

enum class pool_deed : std::uint8_t {
  run_short,  // runs a short operation, with a callback
  run_long,   // runs a long operation, with a callback
  await_run,  // runs an operation with a coroutine that has a time limit
  submit,
  post,
  run_nested,  // runs an operation that waits for another one of its pool
  run_family,  // runs an operation with a task_group
  wait_group,
  cancel,
  cancel_group,
  resize,
  stop,
  destroy,
};

/// One step of a plan: the deed, and then time passes, or a few handlers run. All times are milliseconds.
struct pool_step {
  pool_deed what = pool_deed::run_short;
  std::int64_t then = -1;  // how many milliseconds pass; -1: no time passes, but up to `handlers` handlers are run
  std::uint64_t handlers = 0;
  int id = 0;
  int target = 0;  // the id of an earlier task
  int priority = 0;
  std::uint64_t group = 0;
  std::int64_t lasts = 0;  // the duration of a long operation
  std::int64_t timeout = 0;
  std::int64_t delay = 0;
  std::int64_t deadline = -1;
  std::uint32_t attempts = 1;
  bool throws = false;
  bool heeds = true;           // whether the operation reacts to a cancellation
  bool makes_its_own = false;  // whether the operation converts a cancellation to its own exception
  bool leaves_one = false;  // whether the operation leaves a coroutine on its strand that continues after the operation
  std::size_t workers = 1;
  canigo::stop_mode mode = canigo::stop_mode::drain;
  std::int64_t grace = -1;
  int fails_at = -1;         // the index of the allocation that fails during the deed; -1: none
  int fails_inside_at = -1;  // the index of the failing allocation in what the operation requests from the library
  int fails_after_at = -1;   // the index of the failing allocation in the handlers that run after the deed
};

struct pool_plan {
  std::uint64_t seed = 0;
  std::size_t workers = 1;
  std::size_t queue_limit = 1000;
  canigo::overflow on_overflow = canigo::overflow::reject_new;
  bool is_resized = false;
  bool is_short = false;            // whether allocations fail now and then
  bool is_abandoned = false;        // whether the context is destroyed while tasks run
  bool context_goes_first = false;  // whether the context is destroyed before the pool
  std::vector<pool_step> steps;
};

pool_plan make_pool_plan(std::uint64_t seed, dice d);
std::string describe(const pool_plan& p);
std::string describe(const pool_step& s);

}  // namespace simulated
