#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays calls of policies inside operations of the same policy and of others: one after the other and side by side,
/// some with a deadline, some cancelled, some with the context gone in their middle.
///
/// No cap is exceeded. A call is refused only if the operations of all places wait for a place, and each call ends: so
/// it is refused whenever it would wait for itself. Nothing is left behind.
verdict play_nested(std::uint64_t seed);

}  // namespace simulated
