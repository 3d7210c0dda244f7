#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks its clients to wait: Retry-After, in seconds or as a date. If there is a field
/// retry-after-ms (Azure, OpenAI), it counts instead; if there is neither, x-amz-retry-after counts. Both are in
/// milliseconds. A fraction of a second, which HTTP does not know, is rounded up to milliseconds.
///
/// A date is compared with the response's own Date field, so a wrong clock on either side does no harm. Without that
/// field it is compared with `now`. Returns nothing if the field is absent or makes no sense, zero for a date in the
/// past, and never more than `most`. Of several fields of one name the longest time counts.
///
/// Source: RFC 9110, 10.2.3; the clients of OpenAI for retry-after-ms; the AWS SDKs for x-amz-retry-after.
/// Threads: any.
/// Allocates: never.
std::optional<duration> retry_after(const response& r,
                                    std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                    duration most = std::chrono::hours{24});

}  // namespace canigo::http
