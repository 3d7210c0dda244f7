// How a loop that polls ends, and when it sleeps; [realtime] where the time counts.
#include "canigo/run_busy_polling.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <chrono>
#include <ctime>
#include <stdexcept>
#include <sys/resource.h>
#include <system_error>
#include <thread>

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::run_busy_polling;

namespace {

/// How often this thread has gone to sleep.
long sleeps() {
  rusage used{};
  ::getrusage(RUSAGE_THREAD, &used);
  return used.ru_nvcsw;
}

/// What this thread has taken of a processor.
std::chrono::nanoseconds processor_time() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec};
}

/// Another thread posts a hundred handlers to the loop, one a millisecond, while this one runs it.
long sleeps_while_fed(canigo::duration longest) {
  net::io_context io{1};
  auto work = net::make_work_guard(io);
  int handled = 0;
  std::thread feeder{[&] {
    for (int i = 0; i < 100; ++i) {
      std::this_thread::sleep_for(1ms);
      net::post(io, [&] { ++handled; });
    }
    net::post(io, [&] { work.reset(); });
  }};
  const long before = sleeps();
  run_busy_polling(io, longest);
  const long slept = sleeps() - before;
  feeder.join();
  CHECK(handled == 100);
  return slept;
}

}  // namespace

TEST_CASE("a loop that polls runs all there is, and returns how many handlers it ran", "[run_busy_polling]") {
  for (const canigo::duration longest : {0us, 1us, 50us}) {
    net::io_context io{1};
    int handled = 0;
    net::steady_timer timer{io, 5ms};
    timer.async_wait([&](std::error_code ec) {
      CHECK_FALSE(ec);
      ++handled;
    });
    net::post(io, [&] {
      ++handled;
      net::post(io, [&] { ++handled; });
    });
    CHECK(run_busy_polling(io, longest) == 3);
    CHECK(handled == 3);
    CHECK(io.stopped());
    CHECK(run_busy_polling(io, longest) == 0);
  }
}

TEST_CASE("a loop that polls ends when it is stopped, from another thread and from a handler", "[run_busy_polling]") {
  net::io_context io{1};
  const auto work = net::make_work_guard(io);
  std::thread stopper{[&] {
    std::this_thread::sleep_for(5ms);
    io.stop();
  }};
  run_busy_polling(io, 1us);
  stopper.join();
  io.restart();
  net::post(io, [&] { io.stop(); });
  CHECK(run_busy_polling(io, 1s) == 1);
}

TEST_CASE("what a handler throws comes out of a loop that polls, which may go on", "[run_busy_polling]") {
  net::io_context io{1};
  net::post(io, [] { throw std::runtime_error{"mine"}; });
  net::post(io, [] {});
  CHECK_THROWS_WITH(run_busy_polling(io), "mine");
  CHECK(run_busy_polling(io) == 1);
}

TEST_CASE("a loop that polls does not sleep while it is fed, and one that does not poll does",
          "[run_busy_polling][realtime]") {
  CHECK(sleeps_while_fed(1s) < 50);
  CHECK(sleeps_while_fed(0s) >= 20);
}

TEST_CASE("a loop that has polled for long enough sleeps", "[run_busy_polling][realtime]") {
  net::io_context io{1};
  const net::steady_timer::duration idle = 300ms;
  net::steady_timer timer{io, idle};
  timer.async_wait([](std::error_code) {});
  const auto before = processor_time();
  run_busy_polling(io, 1ms);
  CHECK(processor_time() - before < idle / 3);
}

TEST_CASE("a time to poll that is below 0 or above a second is refused by name", "[run_busy_polling]") {
  net::io_context io{1};
  net::post(io, [] {});
  for (const canigo::duration longest : {canigo::duration{-1}, canigo::duration{1s} + 1ns}) {
    try {
      run_busy_polling(io, longest);
      FAIL("it was not refused");
    } catch (const std::system_error& e) {
      CHECK(e.code() == canigo::errc::invalid_argument);
      CHECK(std::string{e.what()}.find("longest") != std::string::npos);
      CHECK(std::string{e.what()}.find("0s to 1s") != std::string::npos);
    }
  }
  CHECK(io.poll() == 1);
}
