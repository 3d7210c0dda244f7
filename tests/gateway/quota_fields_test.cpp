#include "gateway/policy/quota_fields.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"
#include "told/answers.hpp"

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

namespace gateway = canigo::gateway;
using namespace std::chrono_literals;
using canigo::rate;
using gateway_test::head_of;

namespace {

gateway::told_limits told_by(const std::string& fields, const std::string& body = "", canigo::duration most = 1h) {
  return gateway::read_limits(head_of("HTTP/1.1 429 X\n" + fields), body, told_tests::midnight, most);
}

std::optional<std::uint64_t> rest(const std::string& fields, const rate& r, const std::string& unit = "requests") {
  const auto head = head_of("HTTP/1.1 200 OK\n" + fields);
  canigo::rate_limit limit{r, 1};
  limit.unit = unit;
  return gateway::rest_for(gateway::read_limits(head, "", told_tests::midnight), limit);
}

}  // namespace

TEST_CASE("gateway: each form in which a limit is told is read from a head", "[gateway][quota]") {
  for (const told_tests::answer& a : told_tests::answers) {
    CAPTURE(a.server);
    CHECK(told_by(std::string{a.fields}, "", 24h).wait_of_refusal() == a.refused);
  }
  CHECK(told_by("Retry-After: 99999999999\n").retry_after == 1h);
}

TEST_CASE("gateway: the rest of a quota is that of its unit", "[gateway][quota]") {
  const rate any{100, 1min};
  CHECK(rest("RateLimit-Remaining: 5\n", any) == 5u);
  CHECK(rest("ratelimit-remaining:  5 \n", any) == 5u);
  CHECK(rest("RateLimit-Remaining: 5;w=1, 3;w=60\n", any) == 3u);
  CHECK(rest("RateLimit: limit=100, remaining=50, reset=5\n", any) == 50u);
  CHECK(rest("RateLimit: \"a\";r=50;t=30, \"b\"; r=9 ;t=1\n", any) == 9u);
  CHECK(rest("X-RateLimit-Remaining: 7\nRateLimit-Remaining: 9\n", any) == 7u);
  CHECK(rest("x-ratelimit-remaining: 3.0\n", any) == 3u);
  CHECK(rest("X-Rate-Limit-Remaining: 0\n", any) == 0u);
  CHECK_FALSE(rest("RateLimit-Remaining: 5\n", any, "tokens"));
  const std::string openai = "x-ratelimit-remaining-requests: 7\nx-ratelimit-remaining-tokens: 100\n";
  CHECK(rest(openai, any) == 7u);
  CHECK(rest(openai, any, "tokens") == 100u);
  CHECK_FALSE(rest(openai, any, "input_tokens"));
  const std::string anthropic =
      "anthropic-ratelimit-requests-remaining: 1\nanthropic-ratelimit-tokens-remaining: 2\n"
      "anthropic-ratelimit-input-tokens-remaining: 3\nanthropic-ratelimit-output-tokens-remaining: 4\n";
  CHECK(rest(anthropic, any) == 1u);
  CHECK(rest(anthropic, any, "tokens") == 2u);
  CHECK(rest(anthropic, any, "input_tokens") == 3u);
  CHECK(rest(anthropic, any, "output_tokens") == 4u);
  CHECK_FALSE(rest("Retry-After: 5\n", any));
}

TEST_CASE("gateway: a quota that is far from the rate is another one", "[gateway][quota]") {
  const std::string search = "x-ratelimit-limit: 30\nx-ratelimit-remaining: 3\nx-ratelimit-resource: search\n";
  const std::string core = "x-ratelimit-limit: 5000\nx-ratelimit-remaining: 4\nx-ratelimit-resource: core\n";
  CHECK_FALSE(rest(search, {5'000, 1h}));
  CHECK(rest(search, {30, 1min}) == 3u);
  CHECK(rest(search, {25, 1min}) == 3u);
  CHECK_FALSE(rest(search, {10, 1min}));  // of a part of the upstream, and far above
  CHECK(rest(core, {5'000, 1h}) == 4u);
  CHECK(rest(core, {4'500, 1h}) == 4u);
  CHECK(rest(core, {80, 1min}) == 4u);
  CHECK_FALSE(rest(core, {12'000, 1h}));
  CHECK_FALSE(rest("x-ratelimit-remaining: 3\nx-ratelimit-resource: search\n", {30, 1min}));
  CHECK(rest("x-ratelimit-remaining: 3\nx-ratelimit-resource: core\n", {30, 1min}) == 3u);
  CHECK_FALSE(rest("X-RateLimit-Limit: 5\nX-RateLimit-Remaining: 4\nX-RateLimit-Bucket: abcd\n", {50, 1s}));
  CHECK(rest("X-Shopify-Shop-Api-Call-Limit: 37/40\n", {40, 1min}) == 3u);
  CHECK_FALSE(rest("X-Shopify-Shop-Api-Call-Limit: 37/40\n", {4'000, 1min}));
}

TEST_CASE("gateway: a quota with a window is compared with the rate in its own time", "[gateway][quota]") {
  const std::string daily = "x-ratelimit-limit-requests-day: 14400\nx-ratelimit-remaining-requests-day: 3\n";
  CHECK(rest(daily, {10, 1min}) == 3u);
  CHECK_FALSE(rest(daily, {30, 1min}));
  const std::string hubspot =
      "X-HubSpot-RateLimit-Max: 100\nX-HubSpot-RateLimit-Remaining: 7\n"
      "X-HubSpot-RateLimit-Interval-Milliseconds: 10000\n";
  CHECK(rest(hubspot, {600, 1min}) == 7u);
  CHECK_FALSE(rest(hubspot, {600, 10s}));
  CHECK(rest("RateLimit: \"a\";r=5\nRateLimit-Policy: \"a\";q=60;w=60\n", {600, 10min}) == 5u);
  CHECK(rest("RateLimit: \"a\";r=5\nRateLimit-Policy: \"a\";q=60;w=0\n", {600, 10min}) == 5u);
}

TEST_CASE("gateway: a body names a wait where the head does not, and forbids what does not help", "[gateway][quota]") {
  const std::string info =
      R"({"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"20s"}]}})";
  const std::string money = R"({"error":{"type":"insufficient_quota","code":"insufficient_quota"}})";
  CHECK(told_by("", info).retry_after == 20s);
  CHECK(told_by("", info, 5s).retry_after == 5s);
  CHECK(told_by("Retry-After: 7\n", info).retry_after == 7s);
  CHECK_FALSE(told_by("", info).forbids_retry);
  CHECK(told_by("", money).forbids_retry);
  CHECK_FALSE(told_by("", money).wait_of_refusal());
  CHECK(told_by("x-should-retry: false\n", info).forbids_retry);
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
