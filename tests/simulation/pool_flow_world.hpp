#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Plays a pool with flows: tenants with weights and ceilings hand over tasks that last, fail, are delayed and
/// cancelled as rolled. After each millisecond the judge, who knows only what began and ended and when, looks whether
/// each ceiling held, no worker was idle beside work that was allowed, the important went first, each flow kept its
/// order, and two flows that competed all the time got their shares.
verdict play_pool_flows(std::uint64_t seed);

}  // namespace simulated
