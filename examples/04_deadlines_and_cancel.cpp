// Every way in which a wait can end without a grant. The rate is one token per second; time is virtual (see
// 02_priorities.cpp).
#include <canigo/cancel.hpp>
#include <canigo/scheduler.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>

using namespace std::chrono_literals;

asio::io_context io;
canigo::testing::virtual_time now{io};
canigo::scheduler quota{io, {.rate = canigo::rate::per_second(1), .priorities = 2}};

asio::awaitable<void> show(const char* what, asio::awaitable<void> operation) {
  std::string outcome = "done";
  try {
    co_await std::move(operation);
    // To find the cause, compare codes, such as canigo::errc::timed_out. A cancellation has the code of Asio.
  } catch (const std::system_error& e) {
    outcome = e.code() == asio::error::operation_aborted ? "cancelled" : e.code().message();
  }
  fmt::print("{:6} ms  {}: {}\n", now.elapsed() / 1ms, what, outcome);
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> story() {
  // The token comes in a second. A caller that can't wait that long gets an error immediately, and can do something
  // else.
  co_await show("deadline in 300 ms", quota.acquire({.deadline = now.now() + 300ms}));

  // This deadline could be met. But a more important call arrives before the token, and takes it.
  const canigo::request patient{.priority = 1, .deadline = now.now() + 1500ms};
  asio::co_spawn(io, show("class 1, deadline in 1500 ms", quota.acquire(patient)), rethrow);
  co_await show("class 0", quota.acquire(0));
  co_await canigo::sleep_for(500ms);

  // A time limit for any other awaitable. An operation that takes too long is cancelled; then the caller waits until it
  // has really ended.
  co_await show("a slow call, with_timeout of 100 ms", canigo::with_timeout(canigo::sleep_for(1h), 100ms));

  // A cancellation from another coroutine or thread. The token goes to the next caller.
  canigo::cancel_source stop;
  asio::co_spawn(io, show("wrapped in a cancel_source", stop.wrap(quota.acquire())), rethrow);
  co_await canigo::sleep_for(50ms);
  stop.cancel();

  // After "429 Too Many Requests, Retry-After: 30" no call goes for 30 seconds, and estimate() returns that time.
  quota.pause_until(now.now() + 30s);
  fmt::print("{:6} ms  paused for 30 s; estimate: {} ms\n", now.elapsed() / 1ms, quota.estimate({}) / 1ms);
  co_await show("after the pause", quota.acquire());
}

int main() {
  asio::co_spawn(io, story(), rethrow);
  now.run();
}
