#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace canigo::detail {

/// Parses an instant in the format of HTTP, "Sun, 06 Nov 1994 08:49:37 GMT", or one of its two obsolete formats.
/// std::nullopt for other texts. The name of the weekday is not checked.
///
/// Source: RFC 9110, 5.6.7. A two-digit year in the format of RFC 850 is between 1970 and 2069.
/// Allocates: never.
std::optional<std::chrono::sys_seconds> parse_http_date(std::string_view text) noexcept;

/// Parses an instant such as "1994-11-06T08:49:37Z", with "+01:00" instead of Z, or with a fraction of a second. A
/// fraction is rounded up to a whole second.
///
/// Source: RFC 3339, 5.6.
/// Allocates: never.
std::optional<std::chrono::sys_seconds> parse_rfc3339(std::string_view text) noexcept;

/// Parses a span such as "6m0s", "1h2m3.5s" or "120ms". For a span that a duration can't represent, the result is
/// duration::max().
///
/// Source: the format of Go's time.Duration, without a sign.
/// Allocates: never.
std::optional<duration> parse_go_duration(std::string_view text) noexcept;

}  // namespace canigo::detail
