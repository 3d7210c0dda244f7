#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

/// Returns the configuration as the admin page shows it. A secret is shown by its source, never by its value. Digests
/// of keys are left out.
nlohmann::json config_view(const config& c);

}  // namespace canigo::gateway
