#include "gateway/policy/limit_names.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

using canigo::rate;
using canigo::rate_limit;
using canigo::wait_reason;
using namespace canigo::gateway;

namespace {

const std::vector<rate_limit> named_rates{{.rate = rate::parse("500/1m"), .burst = 20, .unit = "requests"},
                                          {.rate = rate::parse("200000/1m"), .burst = 40'000, .unit = "tokens"},
                                          {.rate = rate::parse("9/s"), .burst = 9, .unit = "requests"},
                                          {.rate = rate::parse("10/1m"), .burst = 1, .unit = "requests"}};

}  // namespace

TEST_CASE("a rate is named by its unit and its period", "[gateway]") {
  CHECK(names_of_rates(named_rates) ==
        std::vector<std::string>{"requests/1m", "tokens/1m", "requests/1s", "requests/1m#2"});
  CHECK(names_of_rates({}).empty());
}

TEST_CASE("a reason to wait has a name", "[gateway]") {
  using cause = wait_reason::cause;
  CHECK(name_of({.binds = cause::none}, named_rates).empty());
  CHECK(name_of({.binds = cause::rate, .index = 1}, named_rates) == "tokens/1m");
  CHECK(name_of({.binds = cause::concurrency}, named_rates) == "concurrency");
  CHECK(name_of({.binds = cause::paused}, named_rates) == "paused");
  CHECK(name_of({.binds = cause::share}, named_rates) == "share");
  CHECK(name_of({.binds = cause::flow, .ceiling = cause::rate, .index = 9}, named_rates) == "tenant");
  CHECK(name_of({.binds = cause::sublimit, .ceiling = cause::rate}, named_rates) == "model");
  const model_limit of_model{.match = "gpt-*", .rates = named_rates};
  const upstream u;
  CHECK(name_of({.binds = cause::sublimit, .ceiling = cause::rate, .index = 1}, u, &of_model) == "tokens/1m of gpt-*");
  CHECK(name_of({.binds = cause::sublimit, .ceiling = cause::concurrency}, u, &of_model) == "concurrency of gpt-*");
}

TEST_CASE("a refused client is told the rates and the one that binds", "[gateway]") {
  using namespace std::chrono_literals;
  using cause = wait_reason::cause;
  const std::vector<rate_limit> two{named_rates[1], {.rate = rate::parse("3/2500ms"), .burst = 3}};
  const std::string policy = "RateLimit-Policy: \"tokens/1m\";q=200000;w=60;qu=\"tokens\", \"requests/2500ms\";q=3\r\n";
  CHECK(rate_fields(two, {.binds = cause::rate, .index = 1}, 1'001ms) ==
        policy + "RateLimit: \"requests/2500ms\";r=0;t=2\r\n");
  CHECK(rate_fields(two, {.binds = cause::concurrency}, 1s) == policy);
  CHECK(rate_fields({two[0]}, {.binds = cause::none}, 60s) ==
        "RateLimit-Policy: \"tokens/1m\";q=200000;w=60;qu=\"tokens\"\r\nRateLimit: \"tokens/1m\";r=0;t=60\r\n");
  CHECK(rate_fields({}, {.binds = cause::none}, 60s).empty());
}
