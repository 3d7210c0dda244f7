#pragma once

#include "world.hpp"

#include <cstdint>

namespace simulated {

/// Simulates a pool with flows: tenants with weights and ceilings submit tasks that last, fail, are delayed and
/// cancelled at random. After each millisecond a judge, which knows only what began and ended and when, checks five
/// promises. Each ceiling held. No worker was idle beside an allowed task. More important tasks went first. Each flow
/// kept its order. Two flows that competed all the time got their shares.
verdict play_pool_flows(std::uint64_t seed);

}  // namespace simulated
