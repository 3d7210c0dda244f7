#pragma once

#include "plan.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace simulated {

enum class share_deed : std::uint8_t {
  acquire,      // by callback
  acquire_own,  // by callback on an executor of its own
  try_acquire,
  cancel,
  release,
  settle,
  set_rate,
  set_burst,
  set_places,  // of the limiter's own cap
  resize,      // the cap that is shared
  pause,
  resume,
  stop,
  destroy,
};

struct share_step {
  share_deed what = share_deed::acquire;
  std::int64_t after = -1;  // nanoseconds; -1: none, but up to `handlers` are run
  std::uint64_t handlers = 0;
  int id = 0;
  int target = 0;       // an earlier id
  std::size_t who = 0;  // which limiter
  int priority = 0;
  std::uint64_t tokens = 1;
  std::int64_t deadline = -1;  // nanoseconds from then on; -1: none
  std::int64_t value = 0;
  std::size_t rate = 0;
};

/// Limiters that share a cap.
struct share_plan {
  std::uint64_t seed = 0;
  std::uint64_t places = 1;
  std::int64_t token = 1;  // of the first rate there is: how long things take
  std::vector<options> rules;
  bool is_abandoned = false;  // one context goes right after the last step
  std::vector<share_step> steps;
};

share_plan make_share_plan(std::uint64_t seed);
std::string describe(const share_plan& p);
std::string describe(const share_step& s);

}  // namespace simulated
