#include "canigo/testing/virtual_time.hpp"

#include "canigo/scheduler.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;
using testing::virtual_time;

TEST_CASE("an hour of virtual time passes at once and exactly", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  duration woke{};
  net::co_spawn(io, sleep_for(1h), [&](std::exception_ptr) { woke = time.elapsed(); });
  time.run_for(1h - 1ns);
  CHECK(woke == 0ns);
  time.run();
  CHECK(woke == 1h);
}

TEST_CASE("time begins where it is told to, and is that of the executor's time source", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io, time_point{24h}};
  CHECK(time.now() == time_point{24h});
  CHECK(time.elapsed() == 0s);
  CHECK(time_source::of(io.get_executor()).now() == time_point{24h});
  time.run_for(1s);
  CHECK(time.now() == time_point{24h + 1s});
  CHECK(time.elapsed() == 1s);
  CHECK(time_source::of(io.get_executor()).now() == time.now());
}

TEST_CASE("poll runs what is ready and what that makes ready, while time stands still", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  int ran = 0;
  net::post(io, [&] {
    ++ran;
    net::post(io, [&] { ++ran; });
  });
  net::co_spawn(io, sleep_for(1ns), [&](std::exception_ptr) { ran += 10; });
  CHECK(time.poll() >= 2);
  CHECK(ran == 2);
  CHECK(time.elapsed() == 0s);
  CHECK(time.poll() == 0);
}

TEST_CASE("run_until includes its instant, and leaves the time there", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  std::vector<duration> woke;
  for (const duration d : {1s, 2s, 3s}) {
    net::co_spawn(io, sleep_for(d), [&](std::exception_ptr) { woke.push_back(time.elapsed()); });
  }
  CHECK(time.run_until(time_point{2s}) > 0);
  CHECK(woke == std::vector<duration>{1s, 2s});
  time.run_until(time_point{2500ms});
  CHECK(time.elapsed() == 2500ms);
  time.run_for(0s);
  CHECK(time.elapsed() == 2500ms);
  CHECK(woke.size() == 2);
  time.run();
  CHECK(time.elapsed() == 3s);  // the last deadline; there is no reason to go beyond
}

TEST_CASE("run_for all the time there is runs all there is", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io, time_point{1h}};
  int woke = 0;
  net::co_spawn(io, sleep_for(24h), [&](std::exception_ptr) { ++woke; });
  CHECK(time.run_for(duration::max()) > 0);
  CHECK(woke == 1);
}

TEST_CASE("time does not go back", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  time.run_for(10s);
  time.run_until(time_point{3s});
  time.run_for(-5s);
  CHECK(time.elapsed() == 10s);
}

TEST_CASE("what waits begins anew at each instant: a ticker ticks exactly", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  std::vector<duration> ticks;
  const auto tick = [](virtual_time& t, std::vector<duration>& out) -> net::awaitable<void> {
    for (;;) {
      co_await sleep_for(7ms);
      out.push_back(t.elapsed());
    }
  };
  net::co_spawn(io, tick(time, ticks), net::detached);
  time.run_for(7s);
  REQUIRE(ticks.size() == 1000);
  CHECK(ticks.front() == 7ms);
  CHECK(ticks.back() == 7s);
}

TEST_CASE("run returns when nothing can happen by itself", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  CHECK(time.run() == 0);
  scheduler s{io, {.rate = rate::per_second(1)}};
  s.pause();
  bool granted = false;
  s.async_acquire({}, [&](std::error_code) { granted = true; });
  time.run();
  CHECK_FALSE(granted);
  s.resume();
  time.run();
  CHECK(granted);
}

TEST_CASE("what a handler throws comes out of run, and the next run goes on", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  bool ran = false;
  net::post(io, [] { throw std::runtime_error{"from a handler"}; });
  net::post(io, [&] { ran = true; });
  CHECK_THROWS_WITH(time.run(), "from a handler");
  CHECK_FALSE(ran);
  time.run();
  CHECK(ran);
}

TEST_CASE("the last instant of time can be waited for", "[virtual_time]") {
  net::io_context io;
  virtual_time time{io};
  bool woke = false;
  net::co_spawn(io, sleep_until(time_point::max() - 1ns), [&](std::exception_ptr) { woke = true; });
  time.run();
  CHECK(woke);
  CHECK(time.now() == time_point::max() - 1ns);
  time.run_until(time_point::max());
  CHECK(time.now() == time_point::max());
}

TEST_CASE("virtual time on a context whose time is in use is refused, and says why", "[virtual_time]") {
  net::io_context io;
  const auto text = [&] {
    try {
      const virtual_time time{io};
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return std::string{e.what()};
    }
    return std::string{};
  };
  SECTION("by a canigo object") {
    const scheduler s{io, {.rate = rate::per_second(1)}};
    CHECK(text().find("virtual_time: context is in use by a canigo object") == 0);
  }
  SECTION("by another virtual time") {
    const virtual_time first{io};
    CHECK(text().find("virtual_time: context is in use by a canigo object") == 0);
  }
}

TEST_CASE("two contexts have a time each", "[virtual_time]") {
  net::io_context one, two;
  virtual_time time_one{one};
  virtual_time time_two{two};
  time_one.run_for(1h);
  CHECK(time_two.elapsed() == 0s);
}
