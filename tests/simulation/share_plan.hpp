#pragma once

#include "plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace simulated {

enum class share_deed : std::uint8_t {
  acquire,      // requests a grant with a callback
  acquire_own,  // requests a grant with a callback on another executor
  try_acquire,
  cancel,
  release,
  settle,
  set_rate,
  set_burst,
  set_places,  // changes the limiter's own cap
  resize,      // changes the shared cap
  pause,
  resume,
  stop,
  destroy,
};

struct share_step {
  share_deed what = share_deed::acquire;
  std::int64_t after = -1;  // how many nanoseconds pass; -1: no time passes, but up to `handlers` handlers are run
  std::uint64_t handlers = 0;
  int id = 0;
  int target = 0;       // the id of an earlier request
  std::size_t who = 0;  // the index of the limiter that the deed is for
  int priority = 0;
  std::uint64_t tokens = 1;
  std::int64_t deadline = -1;  // the deadline in nanoseconds from the time of the request; -1: none
  std::int64_t value = 0;
  std::size_t rate = 0;
};

/// A plan with limiters that share a cap.
struct share_plan {
  std::uint64_t seed = 0;
  std::uint64_t places = 1;
  std::int64_t token = 1;  // the time per token of the first rate; it determines the time scale of the plan
  std::vector<options> rules;
  bool is_abandoned = false;  // whether one context is destroyed right after the last step
  std::vector<share_step> steps;
};

share_plan make_share_plan(std::uint64_t seed);
std::string describe(const share_plan& p);
std::string describe(const share_step& s);

}  // namespace simulated
