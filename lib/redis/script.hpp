#pragma once

#include <string>
#include <string_view>

namespace canigo::redis::detail {

/// The number of the format in which this version of the library stores limits in Redis; below 32.
inline constexpr int limit_form = 3;

/// The Lua script that implements all limits, and its name (the SHA-1) in the script cache of Redis.
std::string_view sync_script() noexcept;
const std::string& sync_sha();

}  // namespace canigo::redis::detail
