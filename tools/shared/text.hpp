#pragma once

#include <string>
#include <string_view>

namespace tools {

/// Returns the text in a form that is safe to print. Control characters, and bytes that are not UTF-8, are written like
/// \x1b.
std::string printable(std::string_view text);

/// Returns the text as a JSON string. Valid UTF-8 is unchanged, and any other byte becomes U+FFFD.
std::string json_text(std::string_view text);

bool is_utf8(std::string_view text);
/// Encodes bytes in base64. Source: RFC 4648, section 4.
std::string base64(std::string_view bytes);

}  // namespace tools
