#pragma once

#include <optional>
#include <string>

namespace canigo::http::detail {

/// The URL with the host's name in the letters that DNS has; nothing if the name has no such form.
///
/// curl reads a name in the locale that the program has set, and most programs have set none. Names are UTF-8.
std::optional<std::string> with_ascii_host(const std::string& url);

/// Whether the host's name has letters beyond ASCII.
bool has_other_letters(const std::string& url) noexcept;

}  // namespace canigo::http::detail
