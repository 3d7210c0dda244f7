#pragma once

// Algorithms of other libraries, rewritten from their sources, so that one model compares them with ours.

#include "service.hpp"

#include <vector>

namespace adaptive {

/// Returns gradient2 and vegas of Netflix, and the algorithms of failsafe-go and Envoy. All start with a limit of 20,
/// which stays between 1 and 1000.
const std::vector<contender>& peers();

}  // namespace adaptive
