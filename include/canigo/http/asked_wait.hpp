#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks all calls of its client to wait: the longest wait that these header fields ask for. Returns
/// std::nullopt if they ask for no wait.
/// - The fields that http::retry_after() reads, in a response with a status of 400 or more.
/// - The reset time of a quota with nothing left: RateLimit in all its forms, RateLimit-Remaining with its reset,
///   X-RateLimit-Remaining (GitHub, Reddit, Discord), X-Rate-Limit-Remaining (X, Okta), X-HubSpot-RateLimit, Mistral's
///   ratelimitbysize. A quota without a reset time is ignored.
/// - The reset time of a used-up quota in x-ratelimit-remaining-requests or -tokens (OpenAI, Azure) or in
///   anthropic-ratelimit, but only in a refusal: 403, 429, 503 or 529. At that time the quota is full again; a part of
///   it is available long before.
/// A reset time is a number of seconds, perhaps with a fraction, a span such as 6m0s, or a point in time. A point in
/// time is a number of seconds or milliseconds since 1970, or a date in the format of HTTP or RFC 3339. It is compared
/// with the response's own Date field; without that field, with `now`. The result is never more than `most`.
///
/// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers, its versions 02 to 11; the documentation of the
/// named servers.
/// Threads: any.
/// Allocates: never.
std::optional<duration> asked_wait(const response& r,
                                   std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                   duration most = std::chrono::hours{24});

}  // namespace canigo::http
