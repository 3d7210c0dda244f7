#include "gateway/policy/limit_names.hpp"

#include "support/catch.hpp"

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
  CHECK(name_of({.binds = cause::flow, .ceiling = cause::rate, .index = 9}, named_rates) == "tenant");
}
