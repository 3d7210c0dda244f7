#pragma once

#include <optional>
#include <string>

namespace canigo::http::detail {

/// The URL with its host's name in the letters that DNS has; nothing where there is no such name.
///
/// curl reads a name as the locale says that the program has set, and most programs have set none. Names are UTF-8.
std::optional<std::string> with_ascii_host(const std::string& url);

/// Whether the host's name has other letters than that.
bool has_other_letters(const std::string& url) noexcept;

}  // namespace canigo::http::detail
