// How many tokens a bucket stores while no call comes. Each output line has the length of a pause without calls, and
// the times of the calls that then arrive together. Time is virtual (see 02_priorities.cpp), so the figures are exact.
#include <canigo/scheduler.hpp>
#include <canigo/testing/virtual_time.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>

using namespace std::chrono_literals;
using canigo::testing::virtual_time;

asio::awaitable<void> call(canigo::scheduler& quota, virtual_time& time, canigo::time_point start) {
  co_await quota.acquire();
  fmt::print(" {}", (time.now() - start) / 1ms);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

void run(const canigo::scheduler_options& options, canigo::duration silence, int calls) {
  asio::io_context io;
  virtual_time time{io};
  canigo::scheduler quota{io, options};
  time.run_for(silence);
  fmt::print("{:6} ms of silence, {} calls at", silence / 1ms, calls);
  for (int i = 0; i < calls; ++i) asio::co_spawn(io, call(quota, time, time.now()), rethrow);
  time.run();
  fmt::print(" ms\n");
}

int main() {
  constexpr auto five = canigo::rate::per_second(5);

  fmt::print("5 per second, burst 1 (the default): one token is kept, however long the silence\n");
  run({.rate = five}, 0ms, 6);
  run({.rate = five}, 200ms, 6);
  run({.rate = five}, 2150ms, 6);

  // In a span just below one second, at most rate + burst - 1 calls go: 5 with a burst of 1, and 9 with a burst of 5.
  // If the server counts "5 in any second", use a burst of 1. If it uses a token bucket itself, use the size of that
  // bucket.
  fmt::print("5 per second, burst 5: five tokens are kept, and then no more\n");
  run({.rate = five, .burst = 5}, 400ms, 10);
  run({.rate = five, .burst = 5}, 1000ms, 10);
  run({.rate = five, .burst = 5}, 3000ms, 11);

  // A bucket starts empty, because the server may still count calls from before a restart. If that is impossible:
  fmt::print("5 per second, burst 5, initial_tokens 5: full from the start\n");
  run({.rate = five, .burst = 5, .initial_tokens = 5}, 0ms, 10);
}
