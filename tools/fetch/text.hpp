#pragma once

#include "tools/shared/text.hpp"

#include <string>
#include <string_view>

namespace fetch {

using tools::json_text;
using tools::printable;

/// Returns a message of the HTTP client about an option, with the client's name of the option replaced by that of
/// canigo-fetch.
std::string in_words_of_options(std::string text);

/// Returns the URL without its password, in printable characters.
std::string printable_url(std::string_view url);
std::string json_url(std::string_view url);

}  // namespace fetch
