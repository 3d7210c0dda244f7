#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

/// Returns the configuration as the admin page shows it. It has the source of each secret, but never its value. Digests
/// of keys are left out.
nlohmann::json config_view(const config& c);

}  // namespace canigo::gateway
