#pragma once

#include "model.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace simulated {

/// A sequence of numbers from a seed, which is the same with every compiler and standard library. Instead, the numbers
/// may come from bytes that a fuzzer chooses, followed by zeros.
class dice {
 public:
  explicit dice(std::uint64_t seed) noexcept : state_{seed} {}
  explicit dice(std::span<const std::uint8_t> bytes) noexcept : bytes_{bytes}, is_from_bytes_{true} {}
  std::uint64_t roll(std::uint64_t bound) noexcept;
  bool one_in(std::uint64_t n) noexcept { return roll(n) == 0; }

 private:
  std::uint64_t state_ = 0;
  std::span<const std::uint8_t> bytes_;
  bool is_from_bytes_ = false;
};

enum class subject { scheduler, semaphore, limiter };

enum class deed : std::uint8_t {
  acquire,       // requests a grant with a callback
  acquire_own,   // requests a grant with a callback on another executor
  await,         // requests a grant with a coroutine
  await_within,  // requests a grant with a coroutine that has a time limit
  with_limit,    // calls with_limit(), whose operation works while it holds the grant
  try_acquire,
  cancel,
  refund,
  charge,
  set_rate,
  set_burst,
  set_places,
  release,
  settle,
  split,  // splits a permit of a semaphore, or a limiter's permit with one slot
  pause,
  resume,
  stop,
  destroy,
  set_flow_weight,
  set_flow_rate,
  set_flow_places,
  drop_flow,  // destroys a flow, or makes it again
  pause_flow,
  resume_flow,
};

/// One step of a plan: first time passes, or a few handlers run; then the deed is done.
struct step {
  deed what = deed::acquire;
  std::int64_t after = -1;  // how many nanoseconds pass; -1: no time passes, but up to `handlers` handlers are run
  std::uint64_t handlers = 0;
  int id = 0;
  int target = 0;  // the id of an earlier request
  int priority = 0;
  std::uint64_t tokens = 1;
  std::array<std::uint64_t, most_units - 1> others = {};  // the wanted amounts of the other units
  std::size_t unit = 0;                                   // the unit whose amount is settled
  std::int64_t deadline = -1;  // the deadline in nanoseconds from the time of the request; -1: none
  std::int64_t value = 0;
  std::size_t rate = 0;  // the index of the rate
  std::size_t flow = 0;  // the number of the flow; 0: no flow
  // what the caller does as soon as its request has ended: refund, cancel, release, or nothing
  deed then = deed::acquire;
  int fails_at = -1;  // the index of the allocation that fails during the deed; -1: none
};

struct plan {
  std::uint64_t seed = 0;
  subject about = subject::scheduler;
  options rules;
  bool is_abandoned = false;  // whether the context is destroyed while requests wait
  bool is_short = false;      // whether allocations fail now and then
  bool is_shadow = false;     // whether the limit is in shadow mode; then the model computes what would have happened
  std::vector<step> steps;
};

plan make_plan(std::uint64_t seed);
/// Makes a plan from given dice. The seed determines only the order of ready handlers.
plan make_plan(std::uint64_t seed, dice d);
std::string describe(const plan& p);
std::string describe(const step& s);

/// With these weights, each token takes a whole number of nanoseconds.
inline constexpr std::uint32_t flow_weights[] = {1, 2, 3, 5, 16, 4096};

inline constexpr std::int64_t token_times[] = {1'000'000'000, 200'000'000, 10'000'000, 1'000'000, 1'000, 1};

}  // namespace simulated
