#pragma once

// Algorithms of other libraries, as their sources have them, for a comparison in one model.

#include "service.hpp"

#include <vector>

namespace adaptive {

/// Netflix' gradient2 and vegas, failsafe-go's, Envoy's; all from 20, between 1 and 1000.
const std::vector<contender>& peers();

}  // namespace adaptive
