#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace canigo::detail {

/// An instant as HTTP writes it: "Sun, 06 Nov 1994 08:49:37 GMT", or one of the two forms that are obsolete. Nothing
/// for another text. The name of the weekday is not compared with the date.
///
/// Source: RFC 9110, 5.6.7. The two digits of a year in the form of RFC 850 are a year from 1970 to 2069.
/// Allocates: never.
std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text) noexcept;

/// An instant such as "1994-11-06T08:49:37Z", with "+01:00" in the place of Z, or with a fraction. A fraction of a
/// second counts as a whole one.
///
/// Source: RFC 3339, 5.6.
/// Allocates: never.
std::optional<std::chrono::sys_seconds> parse_rfc3339(std::string_view text) noexcept;

/// A span such as "6m0s", "1h2m3.5s" or "120ms". One that is too long is duration::max().
///
/// Source: the text of a time.Duration of Go, without a sign.
/// Allocates: never.
std::optional<duration> parse_go_duration(std::string_view text) noexcept;

}  // namespace canigo::detail
