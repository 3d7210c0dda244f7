#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Simulates a limiter with alternatives. There are requests of random classes, amounts and sets, with deadlines and
/// cancellations; permits that are settled and given back; alternatives that are paused, closed and changed.
///
/// After each event, a simple model searches a list of waiters from the start. Each request must end as the model says:
/// when, and from which alternative. All tokens and slots must agree. If only requests come and time passes, no request
/// waits less than its estimate.
verdict play_choices(std::uint64_t seed);

}  // namespace simulated
