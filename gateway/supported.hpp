#pragma once

#include "gateway/config/config.hpp"

#include <string>
#include <vector>

namespace canigo::gateway {

/// What a sound configuration asks for and this version does not do yet, one text each. It refuses to start then.
std::vector<std::string> unsupported(const config& c);

}  // namespace canigo::gateway
