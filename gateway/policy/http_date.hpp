#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace canigo::gateway {

/// An instant as HTTP writes it: "Sun, 06 Nov 1994 08:49:37 GMT", or one of the two forms that are obsolete. Nothing
/// for another text. The name of the weekday is not compared with the date.
///
/// Source: RFC 9110, 5.6.7. The two digits of a year in the form of RFC 850 are a year from 1970 to 2069.
/// Allocates: never.
std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text) noexcept;

}  // namespace canigo::gateway
