#pragma once

#include "pool_plan.hpp"
#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Runs a plan with a strand_pool, and checks the contract at every moment. No more operations run than allowed. No
/// worker is idle beside work. The tasks of a class begin in their order. Every task is reported once, and correctly.
/// The statistics agree.
verdict play(const pool_plan& p);

pool_plan make_pool_plan(std::uint64_t seed);
/// Makes a plan from given dice, and runs it. The seed determines only the order of ready handlers.
verdict play_pool(std::uint64_t seed, dice d);

}  // namespace simulated
