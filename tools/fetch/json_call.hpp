#pragma once

#include "call.hpp"

#include <string>
#include <string_view>

namespace fetch {

/// Reads a call from a JSON object with the member `url`, and perhaps `priority`, `id`, `method`, `headers`, and `body`
/// or `body_file`. Any other member is a problem, and so is a member that occurs twice.
parsed_line parse_json(std::string_view text, int priorities);

/// Its name and version.
std::string json_library();

}  // namespace fetch
