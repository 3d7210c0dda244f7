#pragma once

#include "share_plan.hpp"
#include "world.hpp"

namespace simulated {

/// Plays a plan with limiters on two contexts, and with their model, and compares what they say after every step.
verdict play(const share_plan& p);

}  // namespace simulated
