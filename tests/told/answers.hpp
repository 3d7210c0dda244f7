#pragma once

#include <chrono>
#include <optional>
#include <string_view>

/// Answers of servers as their documents describe them, written for these tests.
namespace told_tests {

/// the instant 2026-01-01 00:00:00 UTC, a Thursday
inline const auto midnight = std::chrono::system_clock::from_time_t(1767225600);

struct answer {
  std::string_view server;
  int status;
  std::string_view fields;  ///< lines "name: value", each with a line feed
  /// The expected result of limit_fields: the named wait, then each quota as UNIT LEFT/LIMIT. A quota's window,
  /// resource and reset follow if they are reported, and ~ if it refills continuously.
  std::string_view told;
  std::optional<std::chrono::milliseconds> refused;  ///< how long a refused call must wait
  std::optional<std::chrono::milliseconds> asked;    ///< the expected result of http::asked_wait()
};

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

inline constexpr answer answers[] = {
    {"RFC 9110, seconds", 429, "Retry-After: 120\n", "wait 2m", 120s, 120s},
    {"RFC 9110, date", 503, "Retry-After: Thu, 01 Jan 2026 00:00:30 GMT\n", "wait 30s", 30s, 30s},
    {"a clock that is wrong", 503, "Date: Wed, 31 Dec 2025 23:00:00 GMT\nRetry-After: Wed, 31 Dec 2025 23:00:10 GMT\n",
     "wait 10s", 10s, 10s},
    {"Shopify, refused", 429, "Retry-After: 2.0\nX-Shopify-Shop-Api-Call-Limit: 40/40\n", "wait 2s; requests 0/40 ~",
     2s, 2s},
    {"Shopify", 200, "X-Shopify-Shop-Api-Call-Limit: 37/40\n", "requests 3/40 ~", std::nullopt, std::nullopt},
    {"Shopify, over its bucket", 200, "X-Shopify-Shop-Api-Call-Limit: 43/40\n", "requests 0/40 ~", std::nullopt,
     std::nullopt},
    {"a fraction", 429, "Retry-After: 1.5\n", "wait 1500ms", 1500ms, 1500ms},
    {"two fields", 429, "Retry-After: 2\nX: y\nretry-after: 2\n", "wait 2s", 2s, 2s},
    {"two fields that differ", 429, "Retry-After: 2\nRetry-After: Thu, 01 Jan 2026 00:00:09 GMT\n", "wait 9s", 9s, 9s},
    {"Azure OpenAI", 429,
     "retry-after-ms: 1043\nretry-after: 2\nx-ratelimit-limit-tokens: 10000\nx-ratelimit-remaining-tokens: 8000\n"
     "x-ratelimit-reset-tokens: 60\n",
     "wait 1043ms; tokens 8000/10000 reset 1m ~", 1043ms, 1043ms},
    {"Azure OpenAI, no limit", 200,
     "x-ratelimit-limit-tokens: -1\nx-ratelimit-remaining-tokens: -1\nx-ratelimit-reset-tokens: 0\n", "", std::nullopt,
     std::nullopt},
    {"OpenAI", 200,
     "x-ratelimit-limit-requests: 60\nx-ratelimit-limit-tokens: 150000\nx-ratelimit-remaining-requests: 59\n"
     "x-ratelimit-remaining-tokens: 149984\nx-ratelimit-reset-requests: 1s\nx-ratelimit-reset-tokens: 6m0s\n"
     "x-ratelimit-remaining-tokens_usage_based: 159976\n",
     "requests 59/60 reset 1s ~; tokens 149984/150000 reset 6m ~", std::nullopt, std::nullopt},
    {"OpenAI, the last request", 200,
     "x-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 59.5s\n",
     "requests 0/60 reset 59500ms ~", 59500ms, std::nullopt},
    {"OpenAI, refused", 429,
     "x-ratelimit-limit-tokens: 150000\nx-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 120ms\n",
     "tokens 0/150000 reset 120ms ~", 120ms, 120ms},
    {"Groq", 429,
     "retry-after: 3\nx-ratelimit-limit-requests: 14400\nx-ratelimit-remaining-requests: 14370\n"
     "x-ratelimit-reset-requests: 2m59.56s\n",
     "wait 3s; requests 14370/14400 reset 179560ms ~", 3s, 3s},
    {"Cerebras", 429,
     "x-ratelimit-limit-requests-day: 1440\nx-ratelimit-remaining-requests-day: 0\n"
     "x-ratelimit-reset-requests-day: 33011.4\nx-ratelimit-limit-tokens-minute: 1000\n"
     "x-ratelimit-remaining-tokens-minute: 900\nx-ratelimit-reset-tokens-minute: 11.38\n",
     "requests 0/1440 in 1d reset 33011400ms; tokens 900/1000 in 1m reset 11380ms", 33011400ms, 33011400ms},
    {"Mistral", 200,
     "x-ratelimit-limit-req-minute: 60\nx-ratelimit-remaining-req-minute: 59\nx-ratelimit-limit-tokens-minute: 50000\n"
     "x-ratelimit-remaining-tokens-minute: 47196\nx-ratelimit-tokens-query-cost: 2804\n",
     "requests 59/60 in 1m; tokens 47196/50000 in 1m", std::nullopt, std::nullopt},
    {"Mistral, by size", 429,
     "ratelimitbysize-limit: 500000\nratelimitbysize-remaining: 0\nratelimitbysize-reset: 28\n"
     "x-ratelimitbysize-limit-month: 1000000\nx-ratelimitbysize-remaining-month: 999900\n",
     "tokens 0/500000 reset 28s; tokens 999900/1000000 in 30d", 28s, 28s},
    {"Anthropic", 429,
     "anthropic-ratelimit-requests-limit: 50\nanthropic-ratelimit-requests-remaining: 49\n"
     "anthropic-ratelimit-requests-reset: 2026-01-01T00:00:01Z\nanthropic-ratelimit-input-tokens-limit: 40000\n"
     "anthropic-ratelimit-input-tokens-remaining: 0\nanthropic-ratelimit-input-tokens-reset: 2026-01-01T00:00:45Z\n"
     "anthropic-ratelimit-output-tokens-remaining: 8000\nanthropic-ratelimit-unified-5h-reset: 1767229200\n",
     "requests 49/50 reset 1s ~; input_tokens 0/40000 reset 45s ~; output_tokens 8000 ~", 45s, 45s},
    {"Anthropic, no use to retry", 429, "x-should-retry: false\n", "no retry", std::nullopt, std::nullopt},
    {"Anthropic, overloaded", 529, "x-should-retry: true\nretry-after: 5\n", "wait 5s", 5s, 5s},
    {"GitHub", 200,
     "x-ratelimit-limit: 5000\nx-ratelimit-remaining: 4999\nx-ratelimit-reset: 1767229200\nx-ratelimit-used: 1\n"
     "x-ratelimit-resource: core\n",
     "requests 4999/5000 of core reset 1h", std::nullopt, std::nullopt},
    {"GitHub, search", 403,
     "x-ratelimit-limit: 30\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1767225645\nx-ratelimit-resource: search\n",
     "requests 0/30 of search reset 45s", 45s, 45s},
    {"GitHub, secondary", 403, "retry-after: 60\nx-ratelimit-limit: 5000\nx-ratelimit-remaining: 4800\n",
     "wait 1m; requests 4800/5000", 60s, 60s},
    {"Reddit", 200, "x-ratelimit-remaining: 3.0\nx-ratelimit-used: 597\nx-ratelimit-reset: 42\n",
     "requests 3 reset 42s", std::nullopt, std::nullopt},
    {"Reddit, the last request", 200, "x-ratelimit-remaining: 0.0\nx-ratelimit-used: 600\nx-ratelimit-reset: 42\n",
     "requests 0 reset 42s", 42s, 42s},
    {"X", 429, "x-rate-limit-limit: 900\nx-rate-limit-remaining: 0\nx-rate-limit-reset: 1767226500\n",
     "requests 0/900 reset 15m", 900s, 900s},
    {"Okta", 429, "X-Rate-Limit-Limit: 1200\nX-Rate-Limit-Remaining: 0\nX-Rate-Limit-Reset: 1767225620\n",
     "requests 0/1200 reset 20s", 20s, 20s},
    {"Discord", 429,
     "Retry-After: 65\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1767225664.57\n"
     "X-RateLimit-Reset-After: 64.57\nX-RateLimit-Bucket: abcd1234\nX-RateLimit-Scope: user\n",
     "wait 65s; requests 0/10 of abcd1234 reset 64570ms", 65s, 65s},
    {"Discord, of all routes", 429, "Retry-After: 65\nX-RateLimit-Global: true\nX-RateLimit-Scope: global\n",
     "wait 65s", 65s, 65s},
    {"Discord, of a resource", 429,
     "Retry-After: 1337\nX-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1767225664.57\n"
     "X-RateLimit-Reset-After: 64.57\nX-RateLimit-Bucket: abcd1234\nX-RateLimit-Scope: shared\n",
     "wait 1337s; requests 9/10 of abcd1234 reset 64570ms", 1337s, 1337s},
    {"Discord, no wait named", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 1.2\n",
     "requests 0 reset 1200ms", 1200ms, 1200ms},
    {"HubSpot", 200,
     "X-HubSpot-RateLimit-Daily: 250000\nX-HubSpot-RateLimit-Daily-Remaining: 249000\n"
     "X-HubSpot-RateLimit-Interval-Milliseconds: 10000\nX-HubSpot-RateLimit-Max: 100\n"
     "X-HubSpot-RateLimit-Remaining: 93\nX-HubSpot-RateLimit-Secondly: 10\n"
     "X-HubSpot-RateLimit-Secondly-Remaining: 9\n",
     "requests 249000/250000 in 1d; requests 93/100 in 10s; requests 9/10 in 1s", std::nullopt, std::nullopt},
    {"Hugging Face", 429, "RateLimit: \"api\";r=0;t=189\nRateLimit-Policy: \"fixed window\";\"api\";q=500;w=300\n",
     "requests 0/500 in 5m reset 189s", 189s, 189s},
    {"the draft's versions from 08 on", 429,
     "RateLimit-Policy: \"burst\";q=100;w=60, \"daily\";q=1000;w=86400, \"size\";q=65535;qu=\"content-bytes\"\n"
     "RateLimit: \"burst\";r=50;t=30, \"daily\";r=0;t=36000, \"size\";r=0;t=5\n",
     "requests 50/100 in 1m reset 30s; requests 0/1000 in 1d reset 10h", 36000s, 36000s},
    {"the draft's version 07", 429, "RateLimit: limit=100, remaining=0, reset=50\n", "requests 0/100 reset 50s", 50s,
     50s},
    {"the draft's versions up to 06", 429,
     "RateLimit-Limit: 10, 10;w=1, 50;w=60\nRateLimit-Remaining: 0\nRateLimit-Reset: 12\n", "requests 0/10 reset 12s",
     12s, 12s},
    {"GitLab", 429, "RateLimit-Limit: 60\nRateLimit-Remaining: 0\nRateLimit-Reset: 1767225610\n",
     "requests 0/60 reset 10s", 10s, 10s},
    {"Kong", 429,
     "X-RateLimit-Limit-Minute: 5\nX-RateLimit-Remaining-Minute: 0\nX-RateLimit-Limit-Hour: 100\n"
     "X-RateLimit-Remaining-Hour: 87\nRateLimit-Limit: 5\nRateLimit-Remaining: 0\nRateLimit-Reset: 17\n",
     "requests 0/5 in 1m; requests 87/100 in 1h; requests 0/5 reset 17s", 17s, 17s},
    {"OpenRouter", 429, "X-RateLimit-Limit: 20\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1767225645250\n",
     "requests 0/20 reset 45250ms", 45250ms, 45250ms},
    {"Atlassian", 429, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 2026-01-01T01:00:20+01:00\n",
     "requests 0 reset 20s", 20s, 20s},
    {"AWS", 503, "x-amz-retry-after: 1500\n", "wait 1500ms", 1500ms, 1500ms},
    {"AWS, with Retry-After", 503, "x-amz-retry-after: 1500\nRetry-After: 3\n", "wait 3s", 3s, 3s},
    {"Gemini", 429, "Server: scaffolding on HTTPServer2\nContent-Type: application/json\n", "", std::nullopt,
     std::nullopt},
    {"a redirect", 301, "Retry-After: 7\n", "wait 7s", 7s, std::nullopt},
};

}  // namespace told_tests
