#include "canigo/loop_lag.hpp"

#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace loop_lag_test {

/// A loop whose time passes while a handler runs, as it does where a handler blocks.
struct slow_loop {
  net::io_context io;
  time_source_control clock{io, time_point{1h}};

  /// The handlers that are due run when so much time has passed.
  void turn_after(duration late) {
    clock.advance(clock.next());
    clock.advance(clock.now() + late);
    io.restart();
    io.poll();
  }
};

TEST_CASE("a loop's lag is the time from the instant at which a handler is due to its run", "[loop_lag]") {
  slow_loop loop;
  loop_lag lag{loop.io, {.interval = 100ms, .threshold = 50ms}};
  CHECK(loop.clock.next() == time_point{1h + 100ms});
  loop.turn_after(0ms);
  CHECK(lag.stats().last == 0ms);
  CHECK_FALSE(lag.is_overloaded());
  loop.turn_after(30ms);
  CHECK(lag.stats().last == 30ms);
  CHECK(loop.clock.next() == time_point{1h + 330ms});
  loop.turn_after(50ms);
  CHECK(lag.is_overloaded());
  const loop_lag_stats s = lag.stats();
  CHECK(s.last == 50ms);
  CHECK(s.lag.count() == 3);
  CHECK(s.lag.max() == 50ms);
  CHECK(s.overloads == 1);
  CHECK(s.overloaded);
  loop.turn_after(49ms);
  CHECK_FALSE(lag.is_overloaded());
  CHECK(lag.stats().overloads == 1);
}

TEST_CASE("a loop is overloaded as soon as its next measurement is too late", "[loop_lag]") {
  slow_loop loop;
  loop_lag lag{loop.io, {.interval = 100ms, .threshold = 50ms}};
  loop.clock.advance(loop.clock.now() + 149ms);
  CHECK_FALSE(lag.is_overloaded());
  loop.clock.advance(loop.clock.now() + 1ms);
  CHECK(lag.is_overloaded());
  CHECK(lag.stats().overloaded);
  CHECK(lag.stats().lag.count() == 0);
}

TEST_CASE("the callback is told when the lag crosses the threshold", "[loop_lag]") {
  slow_loop loop;
  std::vector<std::string> told;
  loop_lag lag{loop.io, {.interval = 100ms, .threshold = 50ms, .on_change = [&](bool overloaded, duration d) {
                           told.push_back((overloaded ? "overloaded " : "better ") + to_string(d));
                         }}};
  for (const duration d : {10ms, 60ms, 70ms, 20ms, 10ms, 80ms}) loop.turn_after(d);
  CHECK(told == std::vector<std::string>{"overloaded 60ms", "better 20ms", "overloaded 80ms"});
}

TEST_CASE("a callback may throw, or destroy the measurement", "[loop_lag]") {
  slow_loop loop;
  auto lag = std::make_unique<std::optional<loop_lag>>();
  SECTION("throw: it comes out of the loop, and the measurements go on") {
    lag->emplace(loop.io, loop_lag_options{.interval = 100ms, .threshold = 50ms, .on_change = [](bool, duration) {
                                             throw std::runtime_error{"told"};
                                           }});
    CHECK_THROWS_WITH(loop.turn_after(60ms), "told");
    loop.turn_after(70ms);
    CHECK((*lag)->stats().lag.count() == 2);
  }
  SECTION("destroy") {
    lag->emplace(loop.io, loop_lag_options{.interval = 100ms, .threshold = 50ms, .on_change = [&](bool, duration) {
                                             lag->reset();
                                           }});
    loop.turn_after(60ms);
    CHECK_FALSE(lag->has_value());
    CHECK(loop.clock.next() == time_point::max());
  }
}

TEST_CASE("a measurement that is stopped or destroyed lets the loop end", "[loop_lag]") {
  limits_run run;
  auto lag = std::make_unique<loop_lag>(run.io);
  run.time.run_for(1s);
  CHECK(lag->stats().lag.count() == 10);
  SECTION("stopped, twice") {
    lag->stop();
    lag->stop();
    run.time.run();
    CHECK(run.ms() == 1000);
    CHECK(lag->stats().lag.count() == 10);
    CHECK_FALSE(lag->is_overloaded());
  }
  SECTION("destroyed") {
    lag.reset();
    run.time.run();
    CHECK(run.ms() == 1000);
  }
  SECTION("between its instant and its run") {
    time_source& time = time_source::of(run.io.get_executor());
    CHECK_FALSE(time.idle());
    lag.reset();
    CHECK(time.idle());
  }
}

TEST_CASE("the context of a measurement may go first", "[loop_lag]") {
  std::optional<loop_lag> lag;
  {
    limits_run run;
    lag.emplace(run.io);
    run.time.run_for(250ms);
  }
  CHECK(lag->stats().lag.count() == 2);
  CHECK_FALSE(lag->is_overloaded());
  lag->stop();
}

TEST_CASE("the context of a measurement may go while its handler is posted", "[loop_lag]") {
  std::optional<loop_lag> lag;
  {
    slow_loop loop;
    lag.emplace(loop.io);
    loop.clock.advance(loop.clock.next());
  }
  CHECK(lag->stats().lag.count() == 0);
}

TEST_CASE("several threads read the lag while the loop runs and the measurement stops", "[loop_lag]") {
  for (int i = 0; i < 20; ++i) {
    net::io_context io;
    auto lag = std::make_unique<loop_lag>(io, loop_lag_options{.interval = 1ms});
    std::thread other{[&] { io.run(); }};
    while (lag->stats().lag.count() < 2) std::this_thread::yield();
    static_cast<void>(lag->is_overloaded());
    lag.reset();
    other.join();
  }
}

TEST_CASE("a handler that blocks makes the loop late, as another thread sees meanwhile", "[loop_lag][realtime]") {
  net::io_context io;
  loop_lag lag{io, {.interval = 10ms, .threshold = 40ms}};
  std::atomic<bool> seen{false};
  net::post(io, [&] {
    const auto until = std::chrono::steady_clock::now() + 10s;
    while (!lag.is_overloaded() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    seen = lag.is_overloaded();
  });
  std::thread other{[&] { io.run(); }};
  while (lag.stats().lag.count() < 3) std::this_thread::sleep_for(1ms);
  lag.stop();
  other.join();
  CHECK(seen);
  CHECK(lag.stats().lag.max() >= 40ms);
}

}  // namespace loop_lag_test
