#pragma once

#include "call.hpp"

#include <string>
#include <string_view>

namespace fetch {

/// Reads a call from a JSON object. The object must have the member `url`. It may have `priority`, `id`, `method`,
/// `headers`, and `body` or `body_file`. Any other member, or a member that occurs twice, is a problem.
parsed_line parse_json(std::string_view text, int priorities);

/// Returns the name and the version of the JSON library.
std::string json_library();

}  // namespace fetch
