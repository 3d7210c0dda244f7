#pragma once

#include <string>
#include <string_view>

namespace fetch {

/// The text for a terminal. Control characters, and bytes that are not UTF-8, are spelled out, as in \x1b.
std::string printable(std::string_view text);

/// As a JSON string: UTF-8 as it is. A byte that is not becomes U+FFFD, for JSON has no place for it.
std::string json_text(std::string_view text);

/// The same of a URL, without its password.
std::string printable_url(std::string_view url);
std::string json_url(std::string_view url);

}  // namespace fetch
