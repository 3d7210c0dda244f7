#pragma once

#include <string>
#include <string_view>

namespace canigo::redis::detail {

/// The one script behind all limits, and its name in Redis' cache.
std::string_view sync_script() noexcept;
const std::string& sync_sha();

}  // namespace canigo::redis::detail
