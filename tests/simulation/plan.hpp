#pragma once

#include "model.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace simulated {

/// A sequence of numbers from a seed, the same with every compiler and standard library; or from bytes, which a fuzzer
/// chooses, and zeros when they end.
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
  acquire,       // by callback
  acquire_own,   // by callback on an executor of its own
  await,         // by coroutine
  await_within,  // the same, for so long at most
  with_limit,    // a coroutine that works while it has what it asked for
  try_acquire,
  cancel,
  refund,
  charge,
  set_rate,
  set_burst,
  set_places,
  release,
  settle,
  split,  // a permit of a semaphore, or the one place of a limiter's
  pause,
  resume,
  stop,
  destroy,
  set_flow_weight,
  set_flow_rate,
  set_flow_places,
  drop_flow,  // or make it anew
  pause_flow,
  resume_flow,
};

/// One step of a plan: first time passes, or a few handlers run; then the deed is done.
struct step {
  deed what = deed::acquire;
  std::int64_t after = -1;  // nanoseconds; -1: none, but up to `handlers` are run
  std::uint64_t handlers = 0;
  int id = 0;
  int target = 0;  // an earlier id
  int priority = 0;
  std::uint64_t tokens = 1;
  std::array<std::uint64_t, most_units - 1> others = {};  // what it wants of the other units
  std::size_t unit = 0;                                   // which it settles
  std::int64_t deadline = -1;                             // nanoseconds from then on; -1: none
  std::int64_t value = 0;
  std::size_t rate = 0;       // which one of several
  std::size_t flow = 0;       // 0: none
  deed then = deed::acquire;  // what the one that is told does at once: refund, cancel, release, or nothing
  int fails_at = -1;          // which allocation of the deed fails; -1: none
};

struct plan {
  std::uint64_t seed = 0;
  subject about = subject::scheduler;
  options rules;
  bool is_abandoned = false;  // the context goes with all who wait
  bool is_short = false;      // of memory, now and then
  bool is_shadow = false;     // the limit lets everybody go, and the model says what it would have done
  std::vector<step> steps;
};

plan make_plan(std::uint64_t seed);
/// The same out of given dice; the seed is for the order of what is ready.
plan make_plan(std::uint64_t seed, dice d);
std::string describe(const plan& p);
std::string describe(const step& s);

/// Each token of these takes whole nanoseconds.
inline constexpr std::uint32_t flow_weights[] = {1, 2, 3, 5, 16, 4096};

inline constexpr std::int64_t token_times[] = {1'000'000'000, 200'000'000, 10'000'000, 1'000'000, 1'000, 1};

}  // namespace simulated
