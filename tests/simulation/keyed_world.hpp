#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays a keyed scheduler with a few keys. Each key must do what a limit of its own would do that nobody ever forgets;
/// the model is that limit. Where there are more keys than the limit may know, it may refuse new ones, and no other.
verdict play_keys(std::uint64_t seed);

}  // namespace simulated
