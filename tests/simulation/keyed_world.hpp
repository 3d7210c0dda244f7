#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Simulates a keyed scheduler with a few keys. The model has one limit per key, and forgets none. Each key must behave
/// like its limit in the model. If there are more keys than the keyed scheduler can store, it may refuse new ones, but
/// no known ones.
verdict play_keys(std::uint64_t seed);

}  // namespace simulated
