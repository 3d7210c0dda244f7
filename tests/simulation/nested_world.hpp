#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Simulates calls of policies inside operations of the same policy and of others: sequential and concurrent ones, some
/// with a deadline, some cancelled, some whose context is destroyed meanwhile.
///
/// No cap may be exceeded. A call may be refused only if the operations in all slots wait for a slot, and each call
/// must end. So a call is refused whenever it would wait for itself. Nothing may be left behind.
verdict play_nested(std::uint64_t seed);

}  // namespace simulated
