#pragma once

#include "pool_plan.hpp"
#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays a plan with a strand_pool, and judges by what the contract promises at every moment: no more run than may, no
/// worker is free beside work, those of a class begin in their order, every task is told once, and rightly, and the
/// figures add up.
verdict play(const pool_plan& p);

pool_plan make_pool_plan(std::uint64_t seed);
/// A plan out of given dice; the seed is for the order of what is ready.
verdict play_pool(std::uint64_t seed, dice d);

}  // namespace simulated
