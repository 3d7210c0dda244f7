#pragma once

#include <optional>
#include <string>

namespace canigo::http::detail {

/// Returns the URL with its host name in the ASCII form that DNS uses; nothing if the name has no such form.
///
/// curl reads a name in the locale that the program has set, and most programs have set none. So this function treats
/// names as UTF-8.
std::optional<std::string> with_ascii_host(const std::string& url);

/// Whether the host name contains letters beyond ASCII.
bool has_other_letters(const std::string& url) noexcept;

}  // namespace canigo::http::detail
