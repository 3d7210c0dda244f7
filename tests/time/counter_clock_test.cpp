// A clock that counts ticks between anchors, on counters and system clocks that the tests play.

#include "canigo/detail/time/counter_clock.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>

using canigo::duration;
using canigo::time_point;
using canigo::detail::counter_clock;
using namespace std::chrono_literals;

namespace {

/// A machine whose counter and clock go on together until somebody has them differ.
struct machine {
  double ticks_per_ns = 2.6;
  bool is_trusted = true;
  duration reading_takes = 25ns;  // of the system's clock
  double ticks = 1e12;
  double now = 0;
  int clock_readings = 0;

  void pass(duration d) { pass_ns(static_cast<double>(d.count())); }
  void pass_ns(double ns) {
    now += ns;
    ticks += ns * ticks_per_ns;
  }
};

/// What the clock reads of a machine. Each reading takes its time.
struct played_source {
  machine* from;

  bool is_trusted() const noexcept { return from->is_trusted; }
  std::uint64_t ticks() const noexcept { return static_cast<std::uint64_t>(static_cast<std::int64_t>(from->ticks)); }
  std::uint64_t ticks_between() const noexcept { return ticks(); }
  time_point now() const noexcept {
    ++from->clock_readings;
    from->pass(from->reading_takes);
    return time_point{duration{static_cast<std::int64_t>(from->now)}};
  }
};

using played_clock = counter_clock<played_source>;

/// Reads it for so long, once every 10 µs. The furthest that it was behind, and that it was ahead.
struct bounds {
  duration behind = duration::min();
  duration ahead = duration::min();

  bounds(played_clock& c, machine& m, duration span, duration step = 10us) {
    for (const double end = m.now + static_cast<double>(span.count()); m.now < end;) {
      m.pass(step);
      const time_point before{duration{static_cast<std::int64_t>(m.now)}};
      const time_point read = c.now();
      const time_point after{duration{static_cast<std::int64_t>(m.now)}};
      behind = std::max(behind, before - read);
      ahead = std::max(ahead, read - after);
    }
  }
};

/// How many of a thousand readings asked the system.
int system_calls(played_clock& c, machine& m) {
  const int before = m.clock_readings;
  for (int i = 0; i < 1000; ++i) {
    m.pass(1us);
    (void)c.now();
  }
  return m.clock_readings - before;
}

}  // namespace

TEST_CASE("a counted clock asks the system until it has measured the ticks, then once a while", "[time]") {
  machine m;
  played_clock c{played_source{&m}};
  CHECK(system_calls(c, m) >= 1000);
  m.pass(10ms);
  CHECK(system_calls(c, m) >= 1000);
  m.pass(10ms);
  (void)c.now();
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counted clock is never ahead of the system's, and 1 us behind at most", "[time]") {
  const double speed = GENERATE(0.024, 0.1, 1.0, 2.6, 5.1);
  machine m{.ticks_per_ns = speed};
  played_clock c{played_source{&m}};
  const bounds b{c, m, 5s, 3us};
  CHECK(b.ahead <= 0ns);
  CHECK(b.behind <= 1us);
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counted clock follows a system's clock that is steered by 500 millionths", "[time]") {
  machine m;
  played_clock c{played_source{&m}};
  std::mt19937_64 random{7};
  std::uniform_real_distribution<double> steering{-0.0005, 0.0005};
  bounds warm_up{c, m, 30ms};
  for (int i = 0; i < 40; ++i) {
    m.ticks_per_ns = 2.6 * (1 + steering(random));
    const bounds b{c, m, 200ms};
    CHECK(b.ahead <= 0ns);
    CHECK(b.behind <= 2us);
  }
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counted clock that nobody reads for long asks the system first", "[time]") {
  machine m;
  played_clock c{played_source{&m}};
  bounds warm_up{c, m, 30ms};
  for (const duration pause : {duration{1ms}, duration{2s}, duration{100h}}) {
    m.pass(pause);
    const bounds b{c, m, 20ms};
    CHECK(b.ahead <= 0ns);
    CHECK(b.behind <= 1us);
  }
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counted clock whose counter jumps asks the system until it has measured it anew", "[time]") {
  const double jump = GENERATE(-1e12, -1e7, 1e7, 1e15);
  machine m;
  played_clock c{played_source{&m}};
  bounds warm_up{c, m, 30ms};
  m.ticks += jump;
  m.pass(1ms);
  CHECK(bounds{c, m, 9ms}.ahead <= 0ns);
  m.pass(10ms);
  (void)c.now();
  CHECK(system_calls(c, m) <= 4);

  SECTION("and for ever once it has jumped twice") {
    m.ticks += jump;
    m.pass(1ms);
    const bounds after{c, m, 1s};
    CHECK(after.ahead <= 0ns);
    CHECK(after.behind <= 0ns);
    CHECK(system_calls(c, m) == 1000);
  }
}

TEST_CASE("a counted clock whose counter changes its frequency is wrong for one anchor at most", "[time]") {
  const double factor = GENERATE(0.5, 0.98, 1.0015, 1.004, 1.02, 1.08, 2.0);
  machine m;
  played_clock c{played_source{&m}};
  bounds warm_up{c, m, 30ms};
  m.ticks_per_ns *= factor;
  const bounds meanwhile{c, m, 2ms};
  CHECK(meanwhile.ahead <= 650us);
  CHECK(meanwhile.behind <= 650us);
  const bounds after{c, m, 1s};
  CHECK(after.ahead <= 0ns);
  CHECK(after.behind <= 1us);
}

TEST_CASE("a counted clock is not misled by a machine that is suspended while the ticks are measured", "[time]") {
  const duration before = GENERATE(0ms, 2ms, 12ms, 15ms);
  machine m;
  played_clock c{played_source{&m}};
  (void)c.now();
  bounds warm_up{c, m, before};
  m.ticks += 8 * 3600e9 * m.ticks_per_ns;  // the counter goes on meanwhile, and the system's clock does not
  const bounds after{c, m, 1s};
  CHECK(after.ahead <= 0ns);
  CHECK(after.behind <= 1us);
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counter that is not trusted is never read", "[time]") {
  machine m{.is_trusted = false};
  played_clock c{played_source{&m}};
  const bounds b{c, m, 1s};
  CHECK(b.ahead <= 0ns);
  CHECK(b.behind <= 0ns);
  CHECK(system_calls(c, m) == 1000);
}

TEST_CASE("readings that take too long are no anchor, and after a hundred the system is asked once", "[time]") {
  machine m{.reading_takes = 300ns};
  played_clock c{played_source{&m}};
  const bounds b{c, m, 1s};
  CHECK(b.ahead <= 0ns);
  CHECK(b.behind <= 0ns);
  CHECK(system_calls(c, m) == 1000);
}

TEST_CASE("a few readings that take too long do not end a counted clock", "[time]") {
  machine m;
  played_clock c{played_source{&m}};
  bounds warm_up{c, m, 30ms};
  for (int i = 0; i < 20; ++i) {
    m.reading_takes = 300ns;
    const bounds slow{c, m, 1ms};
    CHECK(slow.ahead <= 0ns);
    CHECK(slow.behind <= 1us);
    m.reading_takes = 25ns;
    bounds quick{c, m, 1ms};
  }
  CHECK(system_calls(c, m) <= 4);
}

TEST_CASE("a counted clock never goes back for a thread that is alone", "[time]") {
  const double speed = GENERATE(0.1, 1.0, 2.6);
  machine m{.ticks_per_ns = speed};
  played_clock c{played_source{&m}};
  time_point last = time_point::min();
  std::int64_t most_back = 0;
  for (int i = 0; i < 100'000; ++i) {
    m.pass(1us);
    const time_point t = c.now();
    if (i > 0) most_back = std::max<std::int64_t>(most_back, (last - t).count());
    last = t;
  }
  CHECK(most_back == 0);
}

TEST_CASE("a counted clock that is turned off asks the system, and a look makes an anchor of it", "[time]") {
  machine m;
  played_clock c{played_source{&m}};
  bounds warm_up{c, m, 30ms};
  m.pass(700us);
  const time_point looked = c.look();
  CHECK(c.now() >= looked - 25ns);
  c.turn_off();
  CHECK(system_calls(c, m) == 1000);
}
