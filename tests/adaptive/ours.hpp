#pragma once

#include "service.hpp"

#include <vector>

namespace adaptive {

/// What canigo::adaptive_limit decides by: first the default, then the other.
const std::vector<contender>& ours();

}  // namespace adaptive
