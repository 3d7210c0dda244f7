#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks its clients to wait. The header field Retry-After gives this time in seconds or as a date.
/// A field retry-after-ms (Azure, OpenAI) has precedence over Retry-After. If the response has neither field,
/// x-amz-retry-after is used. retry-after-ms and x-amz-retry-after are in milliseconds. A fraction of a second in
/// Retry-After, which HTTP does not allow, is rounded up to milliseconds.
///
/// A date is compared with the response's own Date field, so a wrong clock on either side does no harm. Without a Date
/// field, it is compared with `now`. Returns std::nullopt if the field is missing or invalid, zero for a date in the
/// past, and never more than `most`. If several fields have the same name, the longest time is used.
///
/// Source: RFC 9110, 10.2.3; the clients of OpenAI for retry-after-ms; the AWS SDKs for x-amz-retry-after.
/// Threads: any.
/// Allocates: never.
std::optional<duration> retry_after(const response& r,
                                    std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                    duration most = std::chrono::hours{24});

}  // namespace canigo::http
