// The anchor of the counted clock while its readers and those who renew it run in every order.

#include "canigo/detail/time/counter_clock.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <chrono>
#include <cstdint>

using canigo::duration;
using canigo::time_point;
using canigo::detail::counter_clock;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

/// A machine on which nothing takes time but looking at its clock. A preempted thread finds that time has passed.
struct machine {
  std::int64_t now = 0;
  bool has_jumped = false;

  std::uint64_t ticks() const { return static_cast<std::uint64_t>((has_jumped ? 1'000'000'000 : 0) + 3 * now); }
};

struct played_source {
  machine* from;

  bool is_trusted() const noexcept { return true; }
  std::uint64_t ticks() const noexcept { return from->ticks(); }
  std::uint64_t ticks_between() const noexcept { return from->ticks(); }
  time_point now() const noexcept { return time_point{duration{from->now += 20}}; }
};

using played_clock = counter_clock<played_source>;

/// Reads it `times` times, each `pause` later. It is never ahead, never behind by more than a microsecond, and goes on.
void read(world& w, played_clock& c, machine& m, int times, duration pause) {
  time_point last = time_point::min();
  for (int i = 0; i < times; ++i) {
    m.now += pause.count();
    const std::int64_t before = m.now;
    const time_point t = c.now();
    const std::int64_t read = t.time_since_epoch().count();
    w.expect(read <= m.now, "it is ahead");
    w.expect(read >= before - 1000, "it is behind by more than a microsecond");
    w.expect(t >= last, "it went backwards");
    last = t;
  }
}

void warm_up(world& w, played_clock& c, machine& m) { read(w, c, m, 6, 6ms); }

}  // namespace

TEST_CASE("an anchor is renewed by one of two threads while the other reads the clock", "[interleaving]") {
  explore(4, [](world& w) {
    machine m;
    played_clock c{played_source{&m}};
    warm_up(w, c, m);
    w.thread("reads", [&] { read(w, c, m, 2, 400us); });
    w.thread("reads, too", [&] { read(w, c, m, 2, 400us); });
    w.run();
  });
}

TEST_CASE("a clock is turned off while one thread reads it and another looks", "[interleaving]") {
  explore(3, [](world& w) {
    machine m;
    played_clock c{played_source{&m}};
    warm_up(w, c, m);
    w.thread("reads", [&] { read(w, c, m, 3, 300us); });
    w.thread("looks", [&] { (void)c.look(); });
    w.thread("turns it off", [&] { c.turn_off(); });
    w.run();
    read(w, c, m, 2, 100us);
  });
}

TEST_CASE("the clock is measured while three threads read it", "[interleaving]") {
  explore(2, [](world& w) {
    machine m;
    played_clock c{played_source{&m}};
    for (const char* name : {"reads", "reads, too", "reads as well"}) w.thread(name, [&] { read(w, c, m, 2, 6ms); });
    w.run();
    read(w, c, m, 2, 100us);
  });
}

TEST_CASE("the counter has jumped, and two threads find it out", "[interleaving]") {
  explore(3, [](world& w) {
    machine m;
    played_clock c{played_source{&m}};
    warm_up(w, c, m);
    m.has_jumped = true;
    w.thread("reads", [&] { read(w, c, m, 2, 400us); });
    w.thread("reads, too", [&] { read(w, c, m, 2, 400us); });
    w.run();
  });
}
