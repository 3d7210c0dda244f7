#include "canigo/http/asked_wait.hpp"

#include "support/catch.hpp"
#include "told/answers.hpp"
#include "told/read_answer.hpp"

#include <chrono>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::http::asked_wait;
using canigo::http::response;

namespace {

// Thu, 01 Jan 2026 00:00:00 GMT
const auto midnight = std::chrono::system_clock::from_time_t(1767225600);

using fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;

std::optional<duration> asked_by(int status, fields all, duration most = 24h) {
  response r;
  r.status = status;
  for (const auto& [name, value] : all) r.headers.add(name, value);
  return asked_wait(r, midnight, most);
}

}  // namespace

TEST_CASE("http: the wait that a server asks for is read in the form of each") {
  for (const told_tests::answer& a : told_tests::answers) {
    CAPTURE(a.server);
    response r;
    r.status = a.status;
    told_tests::for_each_field(a.fields, [&](auto name, auto value) { r.headers.add(name, value); });
    CHECK(asked_wait(r, told_tests::midnight) == a.asked);
  }
}

TEST_CASE("http: a refusal asks for the wait of its Retry-After, and a redirect does not") {
  CHECK(asked_by(429, {{"Retry-After", "7"}}) == 7s);
  CHECK(asked_by(429, {{"Retry-After", "1.5"}}) == 1500ms);
  CHECK(asked_by(503, {{"Retry-After", "Thu, 01 Jan 2026 00:00:30 GMT"}}) == 30s);
  CHECK(asked_by(403, {{"Retry-After", "60"}}) == 60s);  // GitHub
  CHECK_FALSE(asked_by(301, {{"Retry-After", "7"}}));
  CHECK_FALSE(asked_by(429, {}));
}

TEST_CASE("http: a quota that is used up asks for the wait until its reset, in each form") {
  for (const int status : {200, 429}) {
    CHECK(asked_by(status, {{"RateLimit-Remaining", "0"}, {"RateLimit-Reset", "12"}}) == 12s);
    CHECK(asked_by(status, {{"RateLimit", "limit=100, remaining=0, reset=50"}}) == 50s);
    CHECK(asked_by(status, {{"RateLimit", "limit=100,remaining=0,reset=50"}}) == 50s);
    CHECK(asked_by(status, {{"RateLimit", R"("default";r=0;t=30)"}}) == 30s);
    CHECK(asked_by(status, {{"ratelimit", R"("a";r=0;t=3, "b" ; r=0 ; t=30, "c";r=5;t=300)"}}) == 30s);
    CHECK(asked_by(status, {{"RateLimit", R"("a";r=0;t=3)"}, {"RateLimit", R"("b";r=0;t=9)"}}) == 9s);
    CHECK(asked_by(status, {{"RateLimit", R"("a,b;r=0;\"";r=0;t=4;pk=:cHQ=:)"}}) == 4s);
    CHECK(asked_by(status, {{"RateLimit", R"("a";r=0;t=1.5)"}}) == 1500ms);
    CHECK(asked_by(status, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "12"}}) == 12s);
    CHECK(asked_by(status, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1767225645.25"}}) == 45250ms);
    CHECK(asked_by(status, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1767225645"}}) == 45s);
    CHECK(asked_by(status, {{"X-RateLimit-Remaining", "0"},
                            {"X-RateLimit-Reset", "1767225645"},
                            {"Date", "Thu, 01 Jan 2026 00:00:40 GMT"}}) == 5s);
    CHECK(asked_by(status, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "1767225600"}}) == 0s);
  }
}

TEST_CASE("http: a quota with something left, or that can't be read, asks for nothing") {
  CHECK_FALSE(asked_by(200, {{"RateLimit-Remaining", "1"}, {"RateLimit-Reset", "12"}}));
  CHECK_FALSE(asked_by(200, {{"RateLimit-Remaining", "10"}, {"RateLimit-Reset", "12"}}));
  CHECK_FALSE(asked_by(200, {{"RateLimit-Remaining", "0"}}));
  CHECK_FALSE(asked_by(200, {{"RateLimit-Reset", "12"}}));
  CHECK_FALSE(asked_by(200, {{"RateLimit", R"("a";r=1;t=30)"}}));
  CHECK_FALSE(asked_by(200, {{"RateLimit", R"("a";r=0, "b";t=30)"}}));  // of two quotas
  CHECK_FALSE(asked_by(200, {{"RateLimit-Policy", R"("a";q=0;w=30)"}}));
  for (const auto* value : {"", ",", ";", "\"", "\"\\", "r=0;t=", "\"a\";r=;t=3", "\"a\";r=0;t=-3", "\"a\";r=0;t=1.",
                            "\"a;r=0;t=3", "remaining=0", "remaining=0, reset=x", "=0;=3", ";r=0;t"}) {
    CAPTURE(value);
    CHECK_FALSE(asked_by(200, {{"RateLimit", value}}));
  }
  CHECK_FALSE(asked_by(200, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "soon"}}));
}

TEST_CASE("http: of several waits the longest counts, and none is longer than the bound") {
  CHECK(asked_by(429, {{"Retry-After", "7"}, {"RateLimit", R"("a";r=0;t=30)"}}) == 30s);
  CHECK(asked_by(429, {{"Retry-After", "70"}, {"RateLimit", R"("a";r=0;t=30)"}}) == 70s);
  constexpr std::string_view large = "999999999999999999999999";
  CHECK(asked_by(429, {{"Retry-After", large}}, 1min) == 1min);
  CHECK(asked_by(429, {{"RateLimit-Remaining", "0"}, {"RateLimit-Reset", large}}, 1min) == 1min);
  CHECK(asked_by(429, {{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", large}}, 1min) == 1min);
  CHECK(asked_by(429, {{"RateLimit", R"("a";r=0;t=999999999999999999)"}}, 1min) == 1min);
  CHECK(asked_by(429, {{"Retry-After", "7"}}, -1s) == 0s);
}
