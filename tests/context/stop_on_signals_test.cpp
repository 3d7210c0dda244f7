#include "canigo/stop_on_signals.hpp"

#include "canigo/gate.hpp"
#include "canigo/policy.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>

#include <chrono>
#include <csignal>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

/// A signal arrives through a pipe, which takes the kernel a moment.
template <class Done>
void poll_until(testing::virtual_time& time, Done done) {
  for (int i = 0; i < 100'000 && !done(); ++i) {
    time.poll();
    std::this_thread::yield();
  }
  REQUIRE(done());
}

}  // namespace

TEST_CASE("the first signal stops softly, with a grace; the second at once") {
  for (const bool second : {false, true}) {
    net::io_context io;
    testing::virtual_time time{io};
    strand_pool pool{io, {.concurrency = 1}};
    stop_on_signals signals{io, pool, {.grace = 10s}};
    auto running = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1h); });
    auto queued = pool.submit([] {});
    time.poll();
    std::raise(SIGTERM);
    poll_until(time, [&] { return queued.state() == task_state::stopped; });
    CHECK(running.state() == task_state::running);
    if (second) {
      std::raise(SIGINT);
      poll_until(time, [&] { return pool.is_closed(); });
      CHECK(time.elapsed() == 0s);
    } else {
      time.run();
      CHECK(time.elapsed() == 10s);
    }
    CHECK(running.state() == task_state::cancelled);
  }
}

TEST_CASE("when the pool has stopped, the signals keep no loop running") {
  net::io_context io;
  strand_pool pool{io, {.concurrency = 1}};
  stop_on_signals signals{io, pool};
  pool.request_stop(stop_mode::drain);
  io.run();
  CHECK(pool.is_closed());
}

TEST_CASE("a signal that comes as its watch ends stops nothing, however far it has come") {
  int steps = 0;
  for (bool was_stopped = false; !was_stopped; ++steps) {
    REQUIRE(steps < 100);
    CAPTURE(steps);
    net::io_context io;
    strand_pool pool{io, {.concurrency = 1}};
    std::optional<stop_on_signals> signals;
    signals.emplace(io, pool);
    io.poll();
    std::raise(SIGTERM);
    for (int i = 0; i < steps; ++i) io.poll_one();
    was_stopped = !pool.try_post([] {});
    signals.reset();
    io.poll();
    CHECK(pool.try_post([] {}) == !was_stopped);
    pool.request_stop(stop_mode::drain);
    io.run();
  }
  CHECK(steps > 2);
}

TEST_CASE("a signal stops what lets callers in, and the next one is the program's again") {
  std::signal(SIGTERM, SIG_DFL);
  net::io_context io;
  testing::virtual_time time{io};
  policy p{io, {.limits = limiter_options{.concurrency = 1}}};
  semaphore slots{io, {.permits = 1}};
  gate inside{io};
  auto place = inside.try_enter();
  stop_on_signals of_policy{io, p}, of_slots{io.get_executor(), slots}, of_gate{io, inside};
  int ended = 0;
  for (const bool waits : {false, true}) {
    net::co_spawn(
        io, p.run([] { return sleep_for(1s); }), [&, waits](const std::exception_ptr& e) {
          CHECK(code_of(e) == (waits ? make_error_code(errc::stopped) : std::error_code{}));
          ++ended;
        });
  }
  time.poll();
  std::raise(SIGTERM);
  poll_until(time, [&] { return ended == 1 && !slots.try_acquire() && !inside.try_enter(); });
  CHECK(inside.count() == 1);
  time.run();  // nothing waits for signals any more
  CHECK(ended == 2);
  CHECK(std::signal(SIGTERM, SIG_DFL) == SIG_DFL);
}

TEST_CASE("a function stops what it wants, in its own order, and is called again at the second signal") {
  for (const bool second : {false, true}) {
    CAPTURE(second);
    net::io_context io;
    testing::virtual_time time{io};
    scheduler quota{io, {.rate = rate::per_second(1)}};
    strand_pool pool{io, {.concurrency = 1}};
    std::vector<std::string> log;
    const auto stop = [&](stop_mode mode, duration grace) -> net::awaitable<void> {
      log.emplace_back(mode == stop_mode::finish_running ? "softly" : "at once");
      quota.stop();
      co_await pool.stop(mode, grace);
      log.emplace_back("stopped");
    };
    stop_on_signals signals{io, stop, {.grace = 10s}};
    auto running = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1h); });
    time.poll();
    std::raise(SIGTERM);
    poll_until(time, [&] { return log.size() == 1; });
    if (second) {
      std::raise(SIGTERM);
      poll_until(time, [&] { return log.size() == 4; });
    }
    time.run();
    CHECK(time.elapsed() == (second ? 0s : 10s));
    CHECK(log.front() == "softly");
    CHECK(log.back() == "stopped");
    CHECK(log.size() == (second ? 4 : 2));
    CHECK(running.state() == task_state::cancelled);
  }
}

TEST_CASE("an exception of a function that stops comes out of run()") {
  net::io_context io;
  stop_on_signals signals{io, [](stop_mode, duration) -> net::awaitable<void> {
                            throw std::runtime_error{"can't stop"};
                            co_return;
                          }};
  io.poll();
  std::raise(SIGTERM);
  CHECK_THROWS_WITH(io.run(), "can't stop");
  io.restart();
  io.run();  // the signals are let go of all the same
}

TEST_CASE("a function that is no coroutine and throws gives the signals back to the program") {
  std::signal(SIGTERM, SIG_DFL);
  net::io_context io;
  int calls = 0;
  stop_on_signals signals{io, [&](stop_mode, duration) -> net::awaitable<void> {
                            ++calls;
                            throw std::runtime_error{"can't stop"};
                          }};
  io.poll();
  std::raise(SIGTERM);
  CHECK_THROWS_WITH(io.run(), "can't stop");
  io.restart();
  io.run();
  CHECK(calls == 1);
  CHECK(std::signal(SIGTERM, SIG_DFL) == SIG_DFL);
}

TEST_CASE("a function that stops is called at two signals, and a third one changes nothing") {
  net::io_context io;
  testing::virtual_time time{io};
  std::vector<stop_mode> calls;
  const auto stop = [&](stop_mode mode, duration) -> net::awaitable<void> {
    calls.push_back(mode);
    co_await sleep_for(1h);
  };
  stop_on_signals signals{io, stop};
  // It hears them at the same time.
  net::signal_set others{io, SIGTERM};
  int heard = 0;
  std::function<void()> listen = [&] {
    others.async_wait([&](std::error_code ec, int) {
      if (ec) return;
      ++heard;
      listen();
    });
  };
  listen();
  time.poll();
  for (int i = 1; i <= 4; ++i) {
    std::raise(SIGTERM);
    poll_until(time, [&] { return heard == i; });
    time.poll();
  }
  CHECK(calls == std::vector{stop_mode::finish_running, stop_mode::cancel_all});
  others.cancel();
  time.run();
  CHECK(time.elapsed() == 1h);
}

TEST_CASE("a gate may go once its watch has gone, however far a signal has come") {
  for (int steps = 0; steps < 20; ++steps) {
    CAPTURE(steps);
    net::io_context io;
    auto inside = std::make_unique<gate>(io);
    std::optional<stop_on_signals> signals;
    signals.emplace(io, *inside);
    io.poll();
    std::raise(SIGTERM);
    for (int i = 0; i < steps; ++i) io.poll_one();
    signals.reset();
    inside.reset();
    io.run();
  }
}
