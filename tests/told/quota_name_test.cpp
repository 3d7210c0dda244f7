#include "canigo/detail/told/quota_name.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string_view>

using namespace std::chrono_literals;
using canigo::detail::parse_quota_name;
using canigo::detail::quota_family;
using canigo::detail::quota_name;
using canigo::detail::told_unit;
using part = quota_name::part;

TEST_CASE("the name of a field says of which quota it tells what", "[told]") {
  const struct {
    std::string_view name;
    quota_name means;
  } rows[] = {
      {"RateLimit-Limit", {part::limit, quota_family::draft, told_unit::requests, false, 0s}},
      {"x-ratelimit-REMAINING", {part::left, quota_family::common, told_unit::requests, false, 0s}},
      {"X-RateLimit-Reset-After", {part::reset_after, quota_family::common, told_unit::requests, false, 0s}},
      {"x-ratelimit-remaining-requests", {part::left, quota_family::common, told_unit::requests, true, 0s}},
      {"x-ratelimit-reset-tokens-minute", {part::reset, quota_family::common, told_unit::tokens, true, 1min}},
      {"X-RateLimit-Daily-Remaining", {part::left, quota_family::common, told_unit::requests, false, 24h}},
      {"x-rate-limit-reset", {part::reset, quota_family::spaced, told_unit::requests, false, 0s}},
      {"anthropic-ratelimit-input-tokens-limit",
       {part::limit, quota_family::anthropic, told_unit::input_tokens, true, 0s}},
      {"anthropic-ratelimit-output-tokens-reset",
       {part::reset, quota_family::anthropic, told_unit::output_tokens, true, 0s}},
      {"X-HubSpot-RateLimit-Daily", {part::limit, quota_family::hubspot, told_unit::requests, false, 24h}},
      {"X-HubSpot-RateLimit-Interval-Milliseconds",
       {part::window_ms, quota_family::hubspot, told_unit::requests, false, 0s}},
      {"x-ratelimitbysize-remaining-month", {part::left, quota_family::by_size, told_unit::tokens, false, 720h}},
      {"X-RateLimit-Resource", {part::resource, quota_family::common, told_unit::requests, false, 0s}},
  };
  for (const auto& [name, means] : rows) {
    CAPTURE(name);
    CHECK(parse_quota_name(name) == means);
  }
}

TEST_CASE("a name with a word that is not known tells nothing", "[told]") {
  for (const std::string_view name :
       {"", "-", "x-ratelimit", "x-ratelimit-", "x-ratelimit-used", "x-ratelimit-scope", "x-ratelimit-requests",
        "x-ratelimit-remaining-", "x-ratelimit--remaining", "x-ratelimit-remaining-tokens_usage_based",
        "x-ratelimit-tokens-query-cost", "x-ratelimit-after", "x-ratelimit-after-reset",
        "anthropic-ratelimit-unified-reset", "ratelimit-remaining-remaining", "my-ratelimit-remaining",
        "x-ratelimit-interval", "x-ratelimit-input-output-limit"}) {
    CAPTURE(name);
    CHECK_FALSE(parse_quota_name(name));
  }
}
