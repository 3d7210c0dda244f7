#pragma once

#include "tools/shared/text.hpp"

#include <string>
#include <string_view>

namespace fetch {

using tools::json_text;
using tools::printable;

/// Returns the client's message about an option, with the option's name in canigo-fetch.
std::string in_words_of_options(std::string text);

/// Returns the URL without its password, in printable characters.
std::string printable_url(std::string_view url);
std::string json_url(std::string_view url);

}  // namespace fetch
