#pragma once

#include "../tools/text.hpp"

#include <string>
#include <string_view>

namespace fetch {

using tools::json_text;
using tools::printable;

/// The same of a URL, without its password.
std::string printable_url(std::string_view url);
std::string json_url(std::string_view url);

}  // namespace fetch
