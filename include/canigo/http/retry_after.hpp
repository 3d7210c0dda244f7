#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks to be left alone: the Retry-After field of a response, in seconds or as a date.
///
/// A date is compared with the response's own Date field if it has one, so that a clock that is wrong here or there
/// does no harm, and else with `now`. Nothing if the field is absent or makes no sense; zero for a date in the past;
/// at most `most`, whatever the server says.
///
/// Source: RFC 9110, 10.2.3.
/// Threads: any.
std::optional<duration> retry_after(const response& r,
                                    std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                    duration most = std::chrono::hours{24});

}  // namespace canigo::http
