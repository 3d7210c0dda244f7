#include "canigo/detail/queue/binding_times.hpp"

#include "support/catch.hpp"

using namespace canigo;
using namespace std::chrono_literals;
using cause = canigo::wait_reason::cause;

TEST_CASE("the time between two events counts for what was binding", "[binding_times]") {
  const time_point start{1000s};
  detail::binding_times t{2};
  CHECK(t.read(start + 9s).rates == std::vector<duration>{0s, 0s});
  t.note(start, cause::rate, 1);
  t.note(start + 2s, cause::rate, 0);
  t.note(start + 3s, cause::concurrency);
  t.note(start + 3s, cause::share);
  t.note(start + 8s, cause::none);
  t.note(start + 20s, cause::paused);
  t.note(start + 21s, cause::rate, 1);
  const binding_stats sums = t.read(start + 22s);
  CHECK(sums.rates == std::vector<duration>{1s, 3s});
  CHECK(sums.concurrency == 0s);
  CHECK(sums.share == 5s);
  CHECK(sums.paused == 1s);
  CHECK(t.read(start + 21s).rates == std::vector<duration>{1s, 2s});  // reading changes nothing
}

TEST_CASE("a clock that steps back adds nothing", "[binding_times]") {
  const time_point start{1000s};
  detail::binding_times t{1};
  t.note(start, cause::rate, 0);
  t.note(start - 1s, cause::rate, 0);
  CHECK(t.read(start - 2s).rates.front() == 0s);
}
