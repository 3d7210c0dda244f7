#include "gateway/policy/return_times.hpp"

#include "support/catch.hpp"

#include <chrono>

using namespace std::chrono_literals;
namespace gateway = canigo::gateway;

TEST_CASE("gateway: each refused call is told a time behind the last one", "[gateway][return_times]") {
  gateway::return_times told;
  const canigo::time_point now{1h};
  CHECK(told.next(now, 2s, 50ms) == 2s);
  CHECK(told.next(now, 2s, 50ms) == 2'050ms);
  CHECK(told.next(now + 1s, 1s, 50ms) == 1'100ms);
  CHECK(told.next(now + 1s, 1s, 100ms) == 1'200ms);
}

TEST_CASE("gateway: a refused call is never told less than the limit says", "[gateway][return_times]") {
  gateway::return_times told;
  const canigo::time_point now{1h};
  CHECK(told.next(now, 2s, 50ms) == 2s);
  CHECK(told.next(now, 5s, 50ms) == 5s);
  CHECK(told.next(now + 10s, 2s, 50ms) == 2s);
}

TEST_CASE("gateway: the times told to refused calls begin anew after a minute", "[gateway][return_times]") {
  gateway::return_times told;
  const canigo::time_point now{1h};
  for (int i = 0; i <= 6; ++i) CHECK(told.next(now, 2s, 10s) == 2s + i * 10s);
  CHECK(told.next(now, 2s, 10s) == 2s);
  // The time of one call alone is more than that.
  CHECK(told.next(now + 1s, 2s, 2min) == 2s);
  CHECK(told.next(now + 1s, canigo::duration::max(), 1s) == canigo::time_point::max() - (now + 1s));
}
