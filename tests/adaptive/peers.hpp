#pragma once

// Algorithms of other libraries, written after their sources, to compare them in one model.

#include "service.hpp"

#include <vector>

namespace adaptive {

/// Returns gradient2 and vegas of Netflix, and those of failsafe-go and Envoy. All start at 20, and are bounded by 1
/// and 1000.
const std::vector<contender>& peers();

}  // namespace adaptive
