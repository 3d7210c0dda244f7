#pragma once

#include "canigo/http/response.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <optional>

namespace canigo::http {

/// How long the server asks all calls of its client to wait: the longest wait that these fields ask for. Nothing: they
/// ask for no wait.
/// - Those of http::retry_after(), of a response with a status of 400 or more.
/// - The reset of a quota of which nothing is left: RateLimit in all its forms, RateLimit-Remaining with its reset,
///   X-RateLimit-Remaining (GitHub, Reddit, Discord), X-Rate-Limit-Remaining (X, Okta), X-HubSpot-RateLimit, Mistral's
///   ratelimitbysize. Without a time of its reset a quota says nothing.
/// - The reset of a used-up quota in x-ratelimit-remaining-requests or -tokens (OpenAI, Azure) or in
///   anthropic-ratelimit, but only in a refusal: 403, 429, 503 or 529. This reset is the time at which the quota is
///   full, and a part of it is back long before.
/// A reset is a number of seconds, perhaps with a fraction, a span such as 6m0s, or a point in time. A point in time is
/// a number of seconds or milliseconds since 1970, or a date of HTTP or RFC 3339. It is compared with the response's
/// own Date field, or with `now`. The result is never more than `most`.
///
/// Source: RFC 9110, 10.2.3; draft-ietf-httpapi-ratelimit-headers, its versions 02 to 11; the documents of the servers
/// that are named.
/// Threads: any.
/// Allocates: never.
std::optional<duration> asked_wait(const response& r,
                                   std::chrono::system_clock::time_point now = std::chrono::system_clock::now(),
                                   duration most = std::chrono::hours{24});

}  // namespace canigo::http
