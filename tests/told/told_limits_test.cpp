#include "canigo/detail/told/told_limits.hpp"

#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"
#include "told/answers.hpp"
#include "told/read_answer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using namespace told_tests;
using canigo::duration;
using canigo::detail::limit_fields;
using canigo::detail::told_limits;

namespace {

std::string text_of(const told_limits& told) {
  constexpr std::string_view units[] = {"requests", "tokens", "input_tokens", "output_tokens"};
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (told.forbids_retry) add("no retry");
  if (told.retry_after) add("wait " + canigo::to_string(*told.retry_after));
  for (const auto& q : told.quotas()) {
    std::string part{units[static_cast<std::size_t>(q.unit)]};
    part += " " + std::to_string(q.left.value());
    if (q.limit) part += "/" + std::to_string(*q.limit);
    if (q.window) part += " in " + canigo::to_string(*q.window);
    if (!q.resource.empty()) part += " of " + std::string{q.resource};
    if (q.reset) part += " reset " + canigo::to_string(*q.reset);
    if (q.refills) part += " ~";
    add(part);
  }
  return text;
}

std::string told_by(std::string_view fields, duration most = 24h) {
  return text_of(read_fields(fields, midnight, most));
}

}  // namespace

TEST_CASE("what a server tells of its limits is read in the form of each", "[told]") {
  for (const answer& a : answers) {
    CAPTURE(a.server);
    const told_limits told = read_fields(a.fields, midnight, 24h);
    CHECK(text_of(told) == a.told);
    CHECK(told.wait_of_refusal() == a.refused);
    CHECK(told.has_used_up() == (a.told.find(" 0/") != a.told.npos || a.told.find(" 0 ") != a.told.npos));
  }
}

TEST_CASE("a wait in milliseconds counts before one in seconds, and Amazon's only alone", "[told]") {
  CHECK(told_by("Retry-After: 9\nretry-after-ms: 250\n") == "wait 250ms");
  CHECK(told_by("retry-after-ms: 0.2\n") == "wait 1ms");
  CHECK(told_by("retry-after-ms: soon\nRetry-After: 9\n") == "wait 9s");
  CHECK(told_by("retry-after-ms: 5\nretry-after-ms: 7\n") == "wait 7ms");
  CHECK(told_by("retry-after-ms: 99999999999999999999\n") == "wait 1d");
  CHECK(told_by("x-amz-retry-after: -1\n").empty());
}

TEST_CASE("what is told of a limit and can't be read is as if it were not there", "[told]") {
  for (const std::string_view fields : {"RateLimit-Remaining: -1\n",
                                        "RateLimit-Remaining: 1.x\n",
                                        "RateLimit-Remaining: 1.\n",
                                        "RateLimit-Remaining: .5\n",
                                        "RateLimit-Remaining: many\n",
                                        "RateLimit-Remaining:\n",
                                        "RateLimit-Remaining: 99999999999999999999\n",
                                        "RateLimit-Remaining: +5\n",
                                        "RateLimit-Remaining: 1e3\n",
                                        "RateLimit-Limit: 5\n",
                                        "RateLimit-Reset: 5\n",
                                        "RateLimit: 5\n",
                                        "RateLimit: \"a\";r=x\n",
                                        "RateLimit: r\n",
                                        "RateLimit: \"a\";t=5\n",
                                        "RateLimit: R=5\n",
                                        "RateLimit: ;;,,;=,r=;\n",
                                        "RateLimit: \"a;r=0;t=3\n",
                                        "RateLimit: \"\\\n",
                                        "RateLimit-Policy: \"a\";q=0;w=60\n",
                                        "X-RateLimit-Remaining-Remaining: 5\n",
                                        "X-RateLimit-Remaining-Limit: 5\n",
                                        "X-RateLimit: 5\n",
                                        "X-RateLimit-: 5\n",
                                        "X-RateLimit-Remaining-: 5\n",
                                        "X-RateLimit-Remaining-Fortnight: 5\n",
                                        "X-RateLimit-Remaining-Day-Day: 5\n",
                                        "X-RateLimit-Remaining-Tokens-Requests: 5\n",
                                        "X-RateLimit-After: 5\n",
                                        "X-Shopify-Shop-Api-Call-Limit: 40\n",
                                        "X-Shopify-Shop-Api-Call-Limit: /40\n",
                                        "X-Shopify-Shop-Api-Call-Limit: 4/\n",
                                        "X-Shopify-Shop-Api-Call-Limit: a/b\n",
                                        "Retry-After: 2s\n",
                                        "Retry-After: -1\n",
                                        "Retry: 2\n",
                                        "Retry-After: 2026-01-01T00:00:45Z\n",
                                        "x-should-retry: no\n",
                                        "x-should-retry: true\n"}) {
    CAPTURE(fields);
    CHECK(told_by(fields).empty());
  }
}

TEST_CASE("a reset that can't be read is none, and no time is longer than the bound", "[told]") {
  const auto reset = [](std::string_view value, duration most = 24h) {
    return read_fields("X-RateLimit-Remaining: 0\nX-RateLimit-Reset: " + std::string{value} + "\n", midnight, most)
        .reset_of_used_up(true);
  };
  for (const std::string_view value : {"", "soon", "-3", "1.", "6m0", "6x", "Thu, 99 Foo 2026", "2026-13-01T00:00:00Z",
                                       "2026-01-01T00:00:00", "2026-01-01 00:00:00Z", "0x10", "1767225645x"}) {
    CAPTURE(value);
    CHECK_FALSE(reset(value));
  }
  for (const std::string_view value :
       {"99999999999", "999999999999999", "999999999999999999999999", "9999h", "99999999999999999999h",
        "9999-12-31T23:59:59Z", "Fri, 31 Dec 9999 23:59:59 GMT"}) {
    CAPTURE(value);
    CHECK(reset(value, 1min) == 1min);
    CHECK(reset(value, duration::max()).value() > 1h);
    CHECK(reset(value, -1s) == 0s);
  }
  for (const std::string_view past : {"1767225599", "1767225600", "1767225599999", "2025-12-31T23:59:59Z",
                                      "Wed, 31 Dec 2025 23:00:00 GMT", "1000-01-01T00:00:00Z", "0", "0s"}) {
    CAPTURE(past);
    CHECK(reset(past) == 0s);
  }
  CHECK(reset("999999999999999999999999999", 1min) == 1min);
  CHECK(read_fields("Date: Fri, 31 Dec 9999 23:59:59 GMT\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1767225645\n",
                    midnight, 24h)
            .reset_of_used_up(true) == 0s);
}

TEST_CASE("of a quota the least rest counts, and its first limit and reset", "[told]") {
  CHECK(told_by("RateLimit-Remaining: 5;w=1, 3;w=60\n") == "requests 3");
  CHECK(told_by("RateLimit-Remaining: 5\nRateLimit-Remaining: 3\nRateLimit-Remaining: 4\n") == "requests 3");
  CHECK(told_by("X-RateLimit-Remaining: 7\nRateLimit-Remaining: 9\n") == "requests 7; requests 9");
  CHECK(told_by("RateLimit: \"a\";r=5;t=3\nRateLimit: \"a\";r=4;t=9\n") == "requests 4 reset 3s");
  CHECK(told_by("RateLimit: \"a=;,b\";r=0;t=3\n") == "requests 0 reset 3s");
  CHECK(told_by("RateLimit: \"a,b;r=0;\\\"\";r=0;t=4;pk=:cHQ=:\n") == "requests 0 reset 4s");
  CHECK(told_by("X-RateLimit-Remaining: 1\nX-RateLimit-Limit: 5\nX-RateLimit-Limit: 9\n") == "requests 1/5");
  CHECK(told_by("X-RateLimit-Remaining: 0\nX-RateLimit-Reset-After: 5\nX-RateLimit-Reset: 9\n") ==
        "requests 0 reset 5s");
}

TEST_CASE("quotas beyond the bound are left out, and the rest is read", "[told]") {
  std::string fields;
  for (int i = 0; i < 1'000; ++i) fields += "RateLimit: \"" + std::to_string(i) + "\";r=5\n";
  fields += "Retry-After: 3\n";
  const told_limits told = read_fields(fields, midnight, 24h);
  CHECK(told.quotas().size() == told_limits::most_quotas);
  CHECK(told.retry_after == 3s);
}

TEST_CASE("whatever bytes the fields have, what is told keeps its bounds", "[told]") {
  const std::uint64_t seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u);
  CAPTURE(seed);
  std::uint64_t random = seed;
  const auto any = [&](std::uint64_t n) { return canigo::detail::next_random(random) % n; };
  for (int round = 0; round < 2'000; ++round) {
    std::string fields;
    for (std::uint64_t n = any(4) + 1; n > 0; --n) fields += answers[any(std::size(answers))].fields;
    for (std::uint64_t n = any(8); n > 0; --n) {
      const auto at = any(fields.size());
      if (any(3) == 0) {
        fields.erase(at, any(10));
      } else {
        fields[at] = static_cast<char>(any(256));
      }
      if (fields.empty()) fields = "\n";
    }
    for (const duration most : {duration{24h}, duration{}, duration::max(), duration::min()}) {
      const told_limits told = read_fields(fields, midnight, most);
      const auto is_bounded = [&](const std::optional<duration>& d) {
        return !d || (*d >= 0s && *d <= std::max(most, duration::zero()));
      };
      CAPTURE(fields);
      bool holds = is_bounded(told.retry_after) && is_bounded(told.wait_of_refusal()) &&
                   told.quotas().size() <= told_limits::most_quotas;
      for (const auto& q : told.quotas()) holds = holds && is_bounded(q.reset) && q.left.has_value();
      if (!holds) FAIL("a bound is broken");
    }
  }
}
