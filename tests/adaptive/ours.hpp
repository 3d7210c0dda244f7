#pragma once

#include "service.hpp"

#include <vector>

namespace adaptive {

/// Returns the algorithms of canigo::adaptive_limit: the default first, then the other one.
const std::vector<contender>& ours();

}  // namespace adaptive
