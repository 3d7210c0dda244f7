#pragma once

#include <optional>
#include <string>

namespace canigo::http::detail {

/// Returns the URL with its host name in the ASCII form that DNS uses; nothing if the name has no such form.
///
/// curl interprets the bytes of a name by the locale that the program has set, and most programs have set none. So this
/// function interprets names as UTF-8.
std::optional<std::string> with_ascii_host(const std::string& url);

/// Whether the host name in the URL contains a character that is not ASCII.
bool has_other_letters(const std::string& url) noexcept;

}  // namespace canigo::http::detail
