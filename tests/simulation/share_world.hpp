#pragma once

#include "share_plan.hpp"
#include "world.hpp"

namespace simulated {

/// Runs a plan with limiters on two contexts and with their model, and compares the results after every step.
verdict play(const share_plan& p);

}  // namespace simulated
