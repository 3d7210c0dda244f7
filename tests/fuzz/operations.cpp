// Deeds on a scheduler, semaphore, limiter or strand_pool in virtual time, beside the simulation's model: the bytes are
// the dice that its plans are made with.

#include "../simulation/plan.hpp"
#include "../simulation/pool_world.hpp"
#include "../simulation/world.hpp"
#include "target.hpp"

#include <cstdint>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input bytes{data, size};
  const bool is_pool = (bytes.byte() & 1) != 0;
  const std::uint64_t order = bytes.byte();
  const simulated::dice dice{bytes.rest()};
  const simulated::verdict v =
      is_pool ? simulated::play_pool(order, dice) : simulated::play(simulated::make_plan(order, dice));
  fuzz::require(v.is_good, v.what.c_str());
  return 0;
}
