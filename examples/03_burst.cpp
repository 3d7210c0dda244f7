// What is kept while nobody asks, and what is not. Each line: how long it was quiet, then when the calls that came
// all together went out. Time is virtual (see 02_priorities.cpp), so the figures are exact.
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

  // Any second, its last instant left out, sees at most rate + burst - 1 calls: 5 above, 9 below. If the other side
  // counts "5 in any second", stay with burst 1; if it keeps a token bucket itself, use the size of that.
  fmt::print("5 per second, burst 5: five tokens are kept, and then no more\n");
  run({.rate = five, .burst = 5}, 400ms, 10);
  run({.rate = five, .burst = 5}, 1000ms, 10);
  run({.rate = five, .burst = 5}, 3000ms, 11);

  // A bucket starts empty, because the other side may still remember what was sent before a restart. Where it can't:
  fmt::print("5 per second, burst 5, initial_tokens 5: full from the start\n");
  run({.rate = five, .burst = 5, .initial_tokens = 5}, 0ms, 10);
}
