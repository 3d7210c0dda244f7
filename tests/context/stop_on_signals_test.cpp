#include "canigo/stop_on_signals.hpp"

#include "canigo/strand_pool.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

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
