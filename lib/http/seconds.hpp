#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace canigo::http::detail {

/// A date in any form that HTTP allows. Throws std::bad_alloc.
std::optional<std::chrono::system_clock::time_point> parse_date(std::string_view text);

}  // namespace canigo::http::detail
