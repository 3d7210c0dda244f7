#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays retries, and hedges, that share a budget: several calls whose operations last, fail and heed as rolled. Each
/// start of an operation, each end and each call's end must come at the nanosecond that the promises give.
///
/// No two calls have an event at the same instant, so what the budget has for each is known.
verdict play_retries(std::uint64_t seed);
verdict play_hedges(std::uint64_t seed);

}  // namespace simulated
