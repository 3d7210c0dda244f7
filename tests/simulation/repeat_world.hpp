#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Simulates retries, and hedges, that share a budget: several calls whose operations last, fail and react to
/// cancellations at random. Each start and end of an operation or call must come at the promised nanosecond.
///
/// No two calls have an event at the same instant, so the state of the budget at each event is known.
verdict play_retries(std::uint64_t seed);
verdict play_hedges(std::uint64_t seed);

}  // namespace simulated
