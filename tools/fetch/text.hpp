#pragma once

#include "tools/shared/text.hpp"

#include <string>
#include <string_view>

namespace fetch {

using tools::json_text;
using tools::printable;

/// What the client says of an option, with the name that the option has here.
std::string in_words_of_options(std::string text);

/// The same of a URL, without its password.
std::string printable_url(std::string_view url);
std::string json_url(std::string_view url);

}  // namespace fetch
