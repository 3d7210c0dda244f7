#include "gateway/policy/quota_fields.hpp"

#include "gateway/heads.hpp"
#include "gateway/policy/http_date.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace gateway = canigo::gateway;
using namespace std::chrono_literals;
using gateway_test::head_of;

namespace {

gateway::quota_left left(const std::string& fields) {
  return gateway::read_quota(head_of("HTTP/1.1 200 OK\n" + fields + "\n"));
}

std::optional<canigo::duration> wait(const std::string& fields, canigo::duration most = 1h) {
  // Sun, 06 Nov 1994 08:49:37 GMT
  const std::chrono::system_clock::time_point now{std::chrono::seconds{784'111'777} + 500ms};
  return gateway::read_retry_after(head_of("HTTP/1.1 429 X\n" + fields), now, most);
}

}  // namespace

TEST_CASE("gateway: what an upstream says is left is read by unit", "[gateway][quota]") {
  const std::pair<std::string, gateway::quota_left> rows[] = {
      {"RateLimit-Remaining: 5", {.requests = 5, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"ratelimit-remaining:  5 ", {.requests = 5, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"RateLimit-Remaining: 5;w=1, 3;w=60", {.requests = 3, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"RateLimit: limit=100, remaining=50, reset=5",
       {.requests = 50, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"RateLimit: \"a\";r=50;t=30, \"b\"; r=9 ;t=1",
       {.requests = 9, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"X-RateLimit-Remaining: 4999", {.requests = 4999, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"x-ratelimit-remaining-requests: 7\nx-ratelimit-remaining-tokens: 100",
       {.requests = 7, .tokens = 100, .input_tokens = {}, .output_tokens = {}}},
      {"X-RateLimit-Remaining: 7\nRateLimit-Remaining: 9",
       {.requests = 7, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
      {"anthropic-ratelimit-requests-remaining: 1\nanthropic-ratelimit-tokens-remaining: 2\n"
       "anthropic-ratelimit-input-tokens-remaining: 3\nanthropic-ratelimit-output-tokens-remaining: 4",
       {.requests = 1, .tokens = 2, .input_tokens = 3, .output_tokens = 4}},
      {"RateLimit-Remaining: 0", {.requests = 0, .tokens = {}, .input_tokens = {}, .output_tokens = {}}},
  };
  for (const auto& [fields, expected] : rows) {
    CAPTURE(fields);
    CHECK(left(fields) == expected);
  }
  const auto all = left(rows[8].first);
  CHECK((all.of("requests") == 1u && all.of("tokens") == 2u && all.of("input_tokens") == 3u));
  CHECK((all.of("output_tokens") == 4u && !all.of("bytes")));
}

TEST_CASE("gateway: a quota that makes no sense is as if it were not there", "[gateway][quota]") {
  for (const std::string fields :
       {"RateLimit-Remaining: -1", "RateLimit-Remaining: 1.5", "RateLimit-Remaining: many", "RateLimit-Remaining:",
        "RateLimit-Remaining: 99999999999999999999", "RateLimit-Remaining: +5", "RateLimit-Limit: 5",
        "RateLimit-Reset: 5", "RateLimit: 5", "RateLimit: \"a\";r=x", "RateLimit: r", "RateLimit: \"a\";t=5",
        "RateLimit: R=5", "RateLimit: ;;,,;=,r=;", "X-RateLimit-Limit: 5", "X-RateLimit-Reset-Requests: 6m0s",
        "anthropic-ratelimit-tokens-limit: 5", "RateLimit-Policy: \"a\";q=100;w=60"}) {
    CAPTURE(fields);
    CHECK(left(fields) == gateway::quota_left{});
  }
}

TEST_CASE("gateway: a rate keeps what the upstream says, and what takes longer than an hour", "[gateway][quota]") {
  using canigo::rate;
  using gateway::tokens_to_keep;
  CHECK(tokens_to_keep({rate{500, 1min}, 20}, 5) == 5);
  CHECK(tokens_to_keep({rate{500, 1min}, 20}, 0) == 0);
  CHECK(tokens_to_keep({rate{500, 1min}, 20}, 500) == 500);
  CHECK(tokens_to_keep({rate{10, 1h}, 10}, 0) == 0);
  CHECK(tokens_to_keep({rate{10, 1h}, 25}, 0) == 15);
  CHECK(tokens_to_keep({rate{10, 1h}, 25}, 20) == 20);
  CHECK(tokens_to_keep({rate{5, 24h}, 5}, 0) == 5);  // a token takes longer than an hour
  CHECK(tokens_to_keep({rate{200'000, 24h}, 40'000}, 0) == 31'667);
  CHECK(tokens_to_keep({rate{1, 1h}, std::uint64_t{1} << 62}, 7) <= std::uint64_t{1} << 62);
  CHECK(tokens_to_keep({rate{1, 1h}, 1}, std::numeric_limits<std::uint64_t>::max()) ==
        std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("gateway: a time to wait is in seconds or a date", "[gateway][quota]") {
  CHECK(wait("Retry-After: 2\n") == 2s);
  CHECK(wait("retry-after:  0 \n") == 0s);
  CHECK(wait("Retry-After: 3600\n") == 1h);
  CHECK(wait("Retry-After: 3599\n") == 3599s);
  CHECK(wait("Retry-After: 99999999999999999999999\n") == 1h);
  CHECK(wait("Retry-After: 2\n", 1500ms) == 1500ms);
  CHECK(wait("Retry-After: 1.5\n") == 1500ms);
  CHECK(wait("Retry-After: 0.0001\n") == 1ms);
  CHECK(wait("Retry-After: 2\nX: y\nRetry-After: 2.5\n") == 2500ms);
  CHECK(wait("Retry-After: 30\nRetry-After: Sun, 06 Nov 1994 08:49:47 GMT\n") == 30s);
  CHECK(wait("Retry-After: soon\nRetry-After: 3\n") == 3s);
  CHECK(wait("Retry-After: 1\n", 1500ms) == 1s);
  CHECK(wait("Retry-After: Sun, 06 Nov 1994 08:49:47 GMT\n") == 10s);
  CHECK(wait("Retry-After: Sunday, 06-Nov-94 08:49:47 GMT\n") == 10s);
  CHECK(wait("Retry-After: Sun Nov  6 08:49:47 1994\n") == 10s);
  CHECK(wait("Retry-After: Sun, 06 Nov 1994 08:49:37 GMT\n") == 0s);
  CHECK(wait("Retry-After: Sat, 05 Nov 1994 08:49:37 GMT\n") == 0s);
  CHECK(wait("Retry-After: Fri, 31 Dec 9999 23:59:59 GMT\n") == 1h);
  // By the upstream's own clock, if it tells.
  CHECK(wait("Date: Sun, 06 Nov 1994 08:49:40 GMT\nRetry-After: Sun, 06 Nov 1994 08:49:47 GMT\n") == 7s);
  CHECK(wait("Date: today\nRetry-After: Sun, 06 Nov 1994 08:49:47 GMT\n") == 10s);
  for (const std::string bad :
       {"Retry-After:\n", "Retry-After: -1\n", "Retry-After: 1.5.5\n", "Retry-After: soon\n", "Retry-After: +2\n",
        "Retry-After: 2s\n", "Retry-After: soon\nRetry-After: later\n", "Retry: 2\n", ""}) {
    CAPTURE(bad);
    CHECK_FALSE(wait(bad));
  }
}

TEST_CASE("gateway: a date of HTTP has three forms and no others", "[gateway][quota]") {
  using gateway::parse_http_date;
  const std::chrono::sys_seconds t{784'111'777s};
  CHECK(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT") == t);
  CHECK(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT") == t);
  CHECK(parse_http_date("Sun Nov  6 08:49:37 1994") == t);
  CHECK(parse_http_date("Wed Nov 16 08:49:37 1994") == t + 240h);
  CHECK(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT") == std::chrono::sys_seconds{});
  CHECK(parse_http_date("Thu, 29 Feb 2024 00:00:00 GMT"));
  CHECK(parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT") == parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT"));
  CHECK(parse_http_date("Friday, 01-Jan-70 00:00:00 GMT") == std::chrono::sys_seconds{});
  CHECK(*parse_http_date("Tuesday, 31-Dec-69 00:00:00 GMT") > t);
  for (const std::string_view bad : {"",
                                     "Sun",
                                     "Sun, 6 Nov 1994 08:49:37 GMT",
                                     "sun, 06 Nov 1994 08:49:37 GMT",
                                     "Sun, 06 nov 1994 08:49:37 GMT",
                                     "Sun, 06 Nov 94 08:49:37 GMT",
                                     "Sun, 06 Nov 1994 08:49:37",
                                     "Sun, 06 Nov 1994 08:49:37 UTC",
                                     "Sun, 06 Nov 1994 08:49:37 GMT ",
                                     " Sun, 06 Nov 1994 08:49:37 GMT",
                                     "Sun, 06 Nov 1994 24:00:00 GMT",
                                     "Sun, 06 Nov 1994 08:60:00 GMT",
                                     "Sun, 06 Nov 1994 08:49:61 GMT",
                                     "Sun, 00 Nov 1994 08:49:37 GMT",
                                     "Sun, 31 Nov 1994 08:49:37 GMT",
                                     "Thu, 29 Feb 2023 00:00:00 GMT",
                                     "Sun, 06 Nov 1994 8:49:37 GMT",
                                     "Sun, 06 Nov 19944 08:49:37 GMT",
                                     "Sun Nov 6 08:49:37 1994",
                                     "Sun Nov  6 08:49:37 1994 GMT",
                                     "784111777",
                                     "1994-11-06T08:49:37Z"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_http_date(bad));
  }
}
