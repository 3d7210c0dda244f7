#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

/// The configuration as the admin page shows it: for a secret it has the source, and never the value. Digests of keys
/// are left out, too.
nlohmann::json config_view(const config& c);

}  // namespace canigo::gateway
