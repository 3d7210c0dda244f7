#pragma once

#include "gateway/config/config.hpp"

#include <nlohmann/json_fwd.hpp>

namespace canigo::gateway {

/// The configuration as the admin page shows it: of a secret it has where it comes from, and never its value. Digests
/// of keys are left out, too.
nlohmann::json config_view(const config& c);

}  // namespace canigo::gateway
