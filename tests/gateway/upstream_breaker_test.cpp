#include "gateway/policy/upstream_breaker.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <random>
#include <vector>

namespace gateway_test::breaker {
namespace {

using namespace std::chrono_literals;
using canigo::circuit_state;
using canigo::duration;
using canigo::time_point;
using canigo::unlimited;
using canigo::gateway::breaker_options;
using canigo::gateway::upstream_breaker;

constexpr time_point start{1h};
constexpr breaker_options quick{.failures = 50, .of = 4, .within = 30s, .open = 5s, .most = 12s};

/// Calls begin and fail until it is open.
void break_it(upstream_breaker& b, time_point now) {
  for (int i = 0; i < 4; ++i) {
    auto p = b.enter(now);
    REQUIRE(p);
    b.report(*p, true, now);
    b.leave(*p);
  }
  REQUIRE(b.state(now) == circuit_state::open);
}

TEST_CASE("gateway: a breaker that is closed bounds nothing", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  CHECK(b.cap(start) == unlimited);
  const auto p = b.enter(start);
  REQUIRE(p);
  CHECK(b.cap(start) == unlimited);
  CHECK(b.open_until(start) == time_point::min());
  b.leave(*p);
  CHECK(b.under_way() == 0);
}

TEST_CASE("gateway: a breaker that is closed lets as many go ahead as may wait for something else",
          "[gateway][breaker]") {
  upstream_breaker b{quick, 2, start};
  CHECK(b.cap(start) == 2);
  const auto p = b.enter(start);
  CHECK(b.cap(start) == 3);
  b.leave(*p);
  CHECK(b.cap(start) == 2);
}

TEST_CASE("gateway: a breaker opens at its share of failures, says it once, and refuses", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  std::vector<upstream_breaker::pass> passes;
  for (int i = 0; i < 5; ++i) passes.push_back(*b.enter(start));
  CHECK_FALSE(b.report(passes[0], true, start));
  CHECK_FALSE(b.report(passes[0], true, start));  // the same call counts once
  CHECK_FALSE(b.report(passes[1], false, start));
  CHECK_FALSE(b.report(passes[2], false, start));
  CHECK(b.report(passes[3], true, start));
  CHECK(b.state(start) == circuit_state::open);
  CHECK(b.open_until(start) == start + 5s);
  CHECK_FALSE(b.report(passes[4], true, start));
  CHECK_FALSE(b.enter(start + 4s));
  // Five are under way yet, and three may try it at the end of the pause.
  CHECK(b.cap(start) == 8);
  for (const auto& p : passes) b.leave(p);
  CHECK(b.cap(start + 1s) == 3);
}

TEST_CASE("gateway: responses that break off open a breaker, and each counts as one call", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  bool is_open = false;
  for (int i = 0; i < 4; ++i) {
    auto p = *b.enter(start);
    CHECK_FALSE(b.report_broken_off(p, start));  // without a head, report() tells of its end
    CHECK_FALSE(b.report(p, false, start));
    if (i % 2 == 1) is_open = b.report_broken_off(p, start);
    b.leave(p);
  }
  CHECK(is_open);
  CHECK(b.state(start) == circuit_state::open);
}

TEST_CASE("gateway: three probes go, and their success closes the breaker", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  const auto slow = b.enter(start);
  break_it(b, start);
  const time_point now = start + 5s;
  CHECK(b.cap(now) == 4);
  std::vector<upstream_breaker::pass> probes;
  for (int i = 0; i < 3; ++i) {
    const auto p = b.enter(now);
    REQUIRE(p);
    probes.push_back(*p);
    CHECK(b.cap(now) == 4);
  }
  CHECK_FALSE(b.enter(now));
  // A call of the time before makes no room for a fourth.
  b.leave(*slow);
  CHECK(b.cap(now) == 3);
  CHECK_FALSE(b.report(probes[0], false, now));
  CHECK(b.cap(now) == 3);
  b.leave(probes[0]);
  CHECK(b.cap(now) == 2);
  CHECK_FALSE(b.report(probes[1], false, now));
  CHECK(b.state(now) == circuit_state::closed);
  CHECK(b.cap(now) == unlimited);
  CHECK_FALSE(b.report(probes[2], true, now));
  b.leave(probes[1]);
  b.leave(probes[2]);
  CHECK(b.under_way() == 0);
}

TEST_CASE("gateway: probes that fail open the breaker for longer, up to a bound", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  break_it(b, start);
  time_point now = start + 5s;
  for (const duration wanted : {10s, 12s, 12s}) {
    auto first = b.enter(now);
    auto second = b.enter(now);
    REQUIRE((first && second));
    CHECK_FALSE(b.report(*first, true, now));
    CHECK(b.report(*second, true, now));
    CHECK(b.open_until(now) == now + wanted);
    CHECK(b.cap(now) == 5);
    b.leave(*first);
    b.leave(*second);
    CHECK(b.cap(now) == 3);
    now += wanted;
  }
}

TEST_CASE("gateway: a probe that ends without a report makes room for another one", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  break_it(b, start);
  const time_point now = start + 6s;
  std::vector<upstream_breaker::pass> probes;
  for (int i = 0; i < 3; ++i) probes.push_back(*b.enter(now));
  CHECK_FALSE(b.enter(now));
  b.leave(probes.back());
  CHECK(b.cap(now) == 3);
  CHECK(b.enter(now));
}

TEST_CASE("gateway: a probe of an earlier trial does not count in a later one", "[gateway][breaker]") {
  upstream_breaker b{quick, unlimited, start};
  break_it(b, start);
  time_point now = start + 5s;
  std::vector<upstream_breaker::pass> probes;
  for (int i = 0; i < 3; ++i) probes.push_back(*b.enter(now));
  b.report(probes[0], true, now);
  b.report(probes[1], true, now);
  REQUIRE(b.state(now) == circuit_state::open);
  now += 10s;
  const auto next = b.enter(now);
  REQUIRE(next);
  CHECK(b.cap(now) == 6);  // four under way, and two probes to come
  CHECK_FALSE(b.report(probes[2], false, now));
  CHECK(b.cap(now) == 6);
  b.leave(probes[2]);
  CHECK(b.cap(now) == 5);
}

TEST_CASE("gateway: other options begin with a closed breaker, and keep count of the calls", "[gateway][breaker]") {
  upstream_breaker b{quick, 1, start};
  auto old = b.enter(start);
  break_it(b, start);
  b.configure(quick, start);
  CHECK(b.state(start) == circuit_state::open);
  b.configure({.of = 1}, start);
  CHECK(b.state(start) == circuit_state::closed);
  CHECK(b.cap(start) == 2);
  CHECK_FALSE(b.report(*old, true, start));  // of the time before
  b.leave(*old);
  CHECK(b.cap(start) == 1);
  auto fresh = b.enter(start);
  CHECK(b.report(*fresh, true, start));
}

TEST_CASE("gateway: whatever happens, no more than three try an upstream at once", "[gateway][breaker]") {
  std::minstd_rand random{11};
  upstream_breaker b{quick, unlimited, start};
  std::vector<upstream_breaker::pass> under_way;
  time_point now = start;
  std::uint64_t trials = 0;
  for (int step = 0; step < 200'000; ++step) {
    now += duration{random() % 400'000'000};
    const std::size_t most = b.cap(now) == unlimited ? 8 : static_cast<std::size_t>(b.cap(now));
    const bool was_closed = b.state(now) == circuit_state::closed;
    const auto what = random() % 3;
    if (what == 0 && under_way.size() < most) {
      const auto p = b.enter(now);
      // A place below the cap is of use, unless it is open.
      REQUIRE(p.has_value() == (b.state(now) != circuit_state::open));
      if (p) under_way.push_back(*p);
      if (p && !was_closed) ++trials;
    } else if (what == 1 && !under_way.empty()) {
      b.report(under_way[random() % under_way.size()], random() % 4 != 0, now);
    } else if (what == 2 && !under_way.empty()) {
      const std::size_t which = random() % under_way.size();
      b.leave(under_way[which]);
      under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(which));
    }
    REQUIRE(b.under_way() == under_way.size());
    if (b.cap(now) != unlimited) REQUIRE(b.cap(now) <= under_way.size() + 3);
  }
  CHECK(trials > 1000);
}

}  // namespace
}  // namespace gateway_test::breaker
