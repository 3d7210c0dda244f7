#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks all calls of its client to wait: the longest of what these fields say. Nothing: it asks for
/// no wait.
/// - Retry-After of a response with a status of 400 or more: http::retry_after();
/// - the fields of a quota of which nothing is left: RateLimit in all its forms, RateLimit-Remaining with
///   RateLimit-Reset, and the same with X- before. Without a time of its reset a quota says nothing.
///
/// The reset is in seconds, perhaps with a fraction. X-RateLimit-Reset may also be a point in time, in seconds since
/// 1970; that is compared with the response's own Date field, or with `now`. Never more than `most`.
///
/// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers, its versions 02 to 10; GitHub's documents.
/// Threads: any.
std::optional<duration> asked_wait(const response& r,
                                   std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                   duration most = std::chrono::hours{24});

}  // namespace canigo::http
