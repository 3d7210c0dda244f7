#include "canigo/detail/time/timing_wheel.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <rapidcheck.h>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::time_point;
using canigo::detail::timer_node;
using canigo::detail::timing_wheel;

namespace {

constexpr time_point wheel_start{1000s};

struct timer : timer_node {
  int id = 0;
};

static_assert(sizeof(timer_node) == 32);
static_assert(sizeof(timer) == 32, "a derived class uses the spare bytes of its base");
static_assert(sizeof(timing_wheel) < 12 * 1024);

std::vector<timer*> drain(timing_wheel& wheel, time_point now) {
  std::vector<timer*> order;
  while (timer_node* node = wheel.pop(now)) order.push_back(static_cast<timer*>(node));
  return order;
}

// Goes from one wake-up to the next, as a timer armed for next() would, and notes when each node came out.
std::vector<std::pair<time_point, timer*>> run(timing_wheel& wheel, int& wake_ups) {
  std::vector<std::pair<time_point, timer*>> log;
  while (!wheel.empty()) {
    const time_point now = wheel.next();
    ++wake_ups;
    while (timer_node* node = wheel.pop(now)) log.emplace_back(now, static_cast<timer*>(node));
  }
  return log;
}

// Deadlines at which digits carry and levels meet, and huge ones.
rc::Gen<duration> any_delay() {
  return rc::gen::exec([] {
    const auto power = *rc::gen::inRange(0, 63);
    const auto wobble = *rc::gen::inRange<std::int64_t>(-3, 4);
    const std::int64_t base = *rc::gen::oneOf(
        rc::gen::just(std::int64_t{1} << power), rc::gen::inRange<std::int64_t>(0, (std::int64_t{1} << power) + 1),
        rc::gen::inRange<std::int64_t>(0, 200), rc::gen::inRange<std::int64_t>(0, 5'000'000'000));
    return duration{std::max<std::int64_t>(0, base + wobble)};
  });
}

// With d >= 0, saturating.
time_point later(time_point t, duration d) { return t > time_point::max() - d ? time_point::max() : t + d; }
time_point earlier(time_point t, duration d) { return t < time_point::min() + d ? time_point::min() : t - d; }

}  // namespace

TEST_CASE("an empty wheel has nothing due, ever", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  CHECK(wheel.empty());
  CHECK(wheel.next() == time_point::max());
  CHECK(wheel.pop(wheel_start) == nullptr);
  CHECK(wheel.pop(time_point::max()) == nullptr);
}

TEST_CASE("a node is due at its instant and not a nanosecond earlier", "[timing_wheel]") {
  for (const duration delay :
       {1ns, 63ns, 64ns, 65ns, 4096ns, duration{1ms}, duration{1s}, duration{1h}, duration{24h * 36500}}) {
    timing_wheel wheel{wheel_start};
    timer t;
    wheel.insert(t, wheel_start + delay);
    CHECK(t.linked());
    CHECK(wheel.next() == wheel_start + delay);
    CHECK(wheel.pop(wheel_start + delay - 1ns) == nullptr);
    CHECK(wheel.next() == wheel_start + delay);
    CHECK(wheel.pop(wheel_start + delay) == &t);
    CHECK_FALSE(t.linked());
    CHECK(wheel.empty());
  }
}

TEST_CASE("one deadline costs one wake-up, however far away it is", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  std::vector<timer> timers(62);
  for (std::size_t i = 0; i < timers.size(); ++i)
    wheel.insert(timers[i], wheel_start + duration{(std::int64_t{1} << i) + 12345});
  int wake_ups = 0;
  const auto log = run(wheel, wake_ups);
  CHECK(log.size() == timers.size());
  CHECK(wake_ups == 62);
  for (std::size_t i = 0; i < log.size(); ++i) {
    CHECK(log[i].first == wheel_start + duration{(std::int64_t{1} << i) + 12345});
    CHECK(log[i].second == &timers[i]);
  }
}

TEST_CASE("the earliest deadline stays exact when the one before it is removed", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  timer a, b, c;
  wheel.insert(c, wheel_start + 900ms);
  wheel.insert(a, wheel_start + 700ms);
  wheel.insert(b, wheel_start + 800ms);
  CHECK(wheel.next() == wheel_start + 700ms);
  wheel.remove(a);
  CHECK(wheel.next() == wheel_start + 800ms);
  wheel.remove(b);
  CHECK(wheel.next() == wheel_start + 900ms);
  wheel.insert(a, wheel_start + 850ms);
  CHECK(wheel.next() == wheel_start + 850ms);
  wheel.remove(c);
  wheel.remove(a);
  CHECK(wheel.next() == time_point::max());
}

TEST_CASE("the earliest of seventeen that leaves is made up for exactly", "[timing_wheel]") {
  timing_wheel wheel{time_point{}};
  std::vector<timer> timers(17);
  for (std::size_t i = 0; i < timers.size(); ++i)
    wheel.insert(timers[i], time_point{1h} - duration{static_cast<int>(i)});
  wheel.remove(timers[16]);
  CHECK(wheel.next() == time_point{1h} - 15ns);
}

TEST_CASE("equal deadlines come out in the order of insertion, whenever they went in", "[timing_wheel]") {
  // The reference moves closer between the insertions, so each node first stands on another level.
  timing_wheel wheel{wheel_start};
  const time_point when = wheel_start + 1h + 123'456'789ns;
  std::vector<timer> timers(200);
  std::vector<timer> others(200);
  std::vector<timer*> expected;
  time_point now = wheel_start;
  for (std::size_t i = 0; i < timers.size(); ++i) {
    wheel.insert(timers[i], when);
    wheel.insert(others[i], now + (when - now) / 3);
    expected.push_back(&timers[i]);
    now += (when - now) / 4;
    for (const timer* t : drain(wheel, now)) REQUIRE(t >= &others.front());
  }
  for (timer& t : others)
    if (t.linked()) wheel.remove(t);
  CHECK(wheel.pop(when - 1ns) == nullptr);
  CHECK(drain(wheel, when) == expected);
}

TEST_CASE("a deadline that has passed is due at once, after those already due", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  timer a, b, c, d;
  wheel.insert(a, wheel_start + 10ns);
  wheel.insert(b, wheel_start + 20ns);
  CHECK(wheel.pop(wheel_start + 30ns) == &a);
  wheel.insert(c, wheel_start - 1h);
  wheel.insert(d, time_point::min());
  CHECK(wheel.next() <= wheel_start + 20ns);
  CHECK(drain(wheel, wheel_start + 30ns) == std::vector<timer*>{&b, &c, &d});
  wheel.insert(a, wheel_start + 30ns);
  CHECK(wheel.next() <= wheel_start + 30ns);
  CHECK(wheel.pop(wheel_start + 30ns) == &a);
}

TEST_CASE("what is due can be removed before it is taken", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  std::vector<timer> timers(5);
  for (timer& t : timers) wheel.insert(t, wheel_start + 1s);
  CHECK(wheel.pop(wheel_start + 1s) == &timers[0]);
  wheel.remove(timers[1]);
  wheel.remove(timers[4]);
  wheel.insert(timers[1], wheel_start + 1s);
  CHECK(drain(wheel, wheel_start + 1s) == std::vector<timer*>{&timers[2], &timers[3], &timers[1]});
}

TEST_CASE("time that goes backwards stands still", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  timer a, b, c;
  wheel.insert(a, wheel_start + 1s);
  CHECK(wheel.pop(wheel_start + 500ms) == nullptr);
  CHECK(wheel.pop(wheel_start - 1h) == nullptr);
  wheel.insert(b, wheel_start + 600ms);
  CHECK(wheel.next() == wheel_start + 600ms);
  CHECK(wheel.pop(time_point::min()) == nullptr);
  wheel.insert(c, wheel_start - 30min);
  CHECK(wheel.next() == wheel_start + 500ms);
  CHECK(drain(wheel, wheel_start + 500ms) == std::vector<timer*>{&c});
  CHECK(drain(wheel, wheel_start + 1s) == std::vector<timer*>{&b, &a});
}

TEST_CASE("the ends of the clock are instants like any other", "[timing_wheel]") {
  timing_wheel wheel{time_point::min()};
  timer first, middle, last, past;
  wheel.insert(last, time_point::max());
  wheel.insert(middle, time_point{});
  wheel.insert(first, time_point::min());
  CHECK(wheel.next() == time_point::min());
  CHECK(drain(wheel, time_point::min()) == std::vector<timer*>{&first});
  CHECK(wheel.next() == time_point{});
  CHECK(drain(wheel, time_point::max() - 1ns) == std::vector<timer*>{&middle});
  CHECK(wheel.next() == time_point::max());
  wheel.insert(past, time_point::min());
  CHECK(drain(wheel, time_point::max()) == std::vector<timer*>{&past, &last});
  wheel.insert(first, time_point::max());
  CHECK(wheel.pop(time_point::max()) == &first);
}

TEST_CASE("a crowd in one slot that loses its earliest still fires on time, with few wake-ups", "[timing_wheel]") {
  timing_wheel wheel{wheel_start};
  std::vector<timer> timers(1000);
  for (std::size_t i = 0; i < timers.size(); ++i)
    wheel.insert(timers[i], wheel_start + 1s + duration{1000 * static_cast<int>(i)});
  for (std::size_t i = 0; i < 500; ++i) {
    wheel.remove(timers[i]);
    CHECK(wheel.next() <= wheel_start + 1s + duration{1000 * static_cast<int>(i + 1)});
  }
  int wake_ups = 0;
  const auto log = run(wheel, wake_ups);
  REQUIRE(log.size() == 500);
  for (std::size_t i = 0; i < 500; ++i) {
    REQUIRE(log[i].second == &timers[500 + i]);
    REQUIRE(log[i].first == wheel_start + 1s + duration{1000 * static_cast<int>(500 + i)});
  }
  CHECK(wake_ups <= 510);
}

TEST_CASE("a wheel does what a sorted map does", "[timing_wheel]") {
  CHECK(rc::check("any sequence of insert, remove and pop against std::multimap", [] {
    const time_point origin{
        duration{*rc::gen::oneOf(rc::gen::inRange<std::int64_t>(-1000, 1000), rc::gen::arbitrary<std::int64_t>())}};
    timing_wheel wheel{origin};
    std::multimap<time_point, timer*> sorted;  // equal keys stay in the order of insertion
    std::vector<std::unique_ptr<timer>> owners;
    time_point now = origin;
    const int steps = *rc::gen::inRange(1, 150);
    for (int i = 0; i < steps; ++i) {
      const auto kind = *rc::gen::weightedElement<int>({{6, 0}, {1, 1}, {2, 2}, {3, 3}, {2, 4}});
      if (kind == 0) {
        auto& t = owners.emplace_back(std::make_unique<timer>());
        time_point when = later(now, *any_delay());
        if (!sorted.empty() && *rc::gen::inRange(0, 3) == 0)
          when = std::next(sorted.begin(), *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(sorted)))->first;
        wheel.insert(*t, when);
        sorted.emplace(std::max(when, now), t.get());
      } else if (kind == 1) {
        auto& t = owners.emplace_back(std::make_unique<timer>());
        wheel.insert(*t, earlier(now, *any_delay()));
        sorted.emplace(now, t.get());
      } else if (kind == 2 && !sorted.empty()) {
        const auto leaving = std::next(sorted.begin(), *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(sorted)));
        wheel.remove(*leaving->second);
        RC_ASSERT(!leaving->second->linked());
        sorted.erase(leaving);
      } else if (kind >= 3) {
        now = kind == 3 && !sorted.empty() ? std::max(now, wheel.next()) : later(now, *any_delay());
        const int most = *rc::gen::inRange(1, 10);
        for (int popped = 0; popped < most; ++popped) {
          timer_node* node = wheel.pop(now);
          if (sorted.empty() || sorted.begin()->first > now) {
            RC_ASSERT(node == nullptr);
            break;
          }
          RC_ASSERT(node == sorted.begin()->second);
          sorted.erase(sorted.begin());
        }
      }
      RC_ASSERT(wheel.size() == sorted.size());
      const time_point earliest = sorted.empty() ? time_point::max() : sorted.begin()->first;
      RC_ASSERT(wheel.next() <= earliest);
      if (owners.size() <= 16) RC_ASSERT(wheel.next() == earliest);
    }
    while (!sorted.empty()) {
      RC_ASSERT(wheel.pop(time_point::max()) == sorted.begin()->second);
      sorted.erase(sorted.begin());
    }
    RC_ASSERT(wheel.empty());
  }));
}
