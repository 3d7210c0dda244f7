#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays a limiter with alternatives: requests of random classes, amounts and sets, with deadlines and cancellations;
/// permits that are settled and given back; alternatives that are paused, closed and changed.
///
/// Each request must end as a list of waiters says that is looked through from the start after each event: when, and
/// from which alternative. All tokens and places must be what the list says. If only requests come and time passes, no
/// request waits less than its estimate.
verdict play_choices(std::uint64_t seed);

}  // namespace simulated
