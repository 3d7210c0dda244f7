#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays a seed with a strand_pool, and judges by what the contract promises at every moment: no more run than may, no
/// worker is free beside work, every task is told once, and the figures add up.
verdict play_pool(std::uint64_t seed);
/// The same out of given dice; the seed is for the order of what is ready.
verdict play_pool(std::uint64_t seed, dice d);

}  // namespace simulated
