#pragma once

#include <string>
#include <string_view>

namespace tools {

/// The text for a terminal. Control characters, and bytes that are not UTF-8, are spelled out, as in \x1b.
std::string printable(std::string_view text);

/// As a JSON string: UTF-8 as it is. A byte that is not becomes U+FFFD, for JSON has no place for it.
std::string json_text(std::string_view text);

bool is_utf8(std::string_view text);
/// Source: RFC 4648, section 4.
std::string base64(std::string_view bytes);

}  // namespace tools
