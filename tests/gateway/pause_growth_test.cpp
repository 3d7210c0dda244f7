#include "gateway/policy/pause_growth.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::time_point;
using canigo::gateway::pause_growth;

namespace {

constexpr std::uint64_t most_random = std::numeric_limits<std::uint64_t>::max();

}  // namespace

TEST_CASE("gateway: an upstream that names no wait is paused longer each time, up to a minute", "[gateway][pause]") {
  pause_growth g;
  time_point now{1h};
  for (const duration wanted : {1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s, 60s}) {
    const time_point until = g.refuse(now, now, 0);
    CHECK(until == now + wanted);
    now = until;
  }
}

TEST_CASE("gateway: an upstream that takes calls back at once and refuses them is paused longer each time",
          "[gateway][pause]") {
  pause_growth g;
  time_point now{1h};
  duration wanted = 10ms;
  for (int i = 0; i < 20; ++i) {
    const time_point until = g.refuse(now, now, 0, pause_growth::of_at_once);
    CHECK(until == now + wanted);
    now = until;
    wanted = std::min<duration>(2 * wanted, 60s);
  }
  g.succeed(now);
  CHECK(g.refuse(now, now, 0, pause_growth::of_at_once) == now + 10ms);
}

TEST_CASE("gateway: chance makes such a pause a quarter longer at most", "[gateway][pause]") {
  pause_growth g;
  const time_point now{1h};
  const duration first = g.refuse(now, now, most_random) - now;
  CHECK((first > 1249ms && first <= 1250ms));
  const duration second = g.refuse(now + 5s, now + 5s, most_random / 2) - now - 5s;
  CHECK((second > 2200ms && second < 2300ms));
}

TEST_CASE("gateway: calls that are refused together make one pause", "[gateway][pause]") {
  pause_growth g;
  const time_point now{1h};
  const time_point until = g.refuse(now, now + 100ms, 0);
  CHECK(until == now + 1100ms);
  CHECK(g.refuse(now, now + 200ms, 0) == until);
  CHECK(g.refuse(now + 50ms, now + 1s, 0) == until);
  // One that is late pauses again, and no longer than before.
  CHECK(g.refuse(now, now + 5s, 0) == now + 6s);
  CHECK(g.refuse(now + 6s, now + 7s, 0) == now + 9s);
}

TEST_CASE("gateway: a call that succeeds after the pause makes the next one short", "[gateway][pause]") {
  pause_growth g;
  const time_point now{1h};
  CHECK(g.is_as_new());
  g.succeed(now);
  CHECK(g.is_as_new());
  CHECK(g.refuse(now, now, 0) == now + 1s);
  g.succeed(now);  // it went with those that were refused
  CHECK_FALSE(g.is_as_new());
  CHECK(g.refuse(now + 1s, now + 1s, 0) == now + 3s);
  g.succeed(now + 3s);
  CHECK(g.is_as_new());
  CHECK(g.refuse(now + 4s, now + 4s, 0) == now + 5s);
}
