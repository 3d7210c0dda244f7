// How to await limits from Boost.Cobalt: docs/adapters.md
#include <canigo/policy.hpp>
#include <canigo/semaphore.hpp>

#include <boost/asio.hpp>
#include <boost/cobalt.hpp>
#include <fmt/core.h>

#include <exception>

namespace net = boost::asio;
namespace cobalt = boost::cobalt;
using namespace std::chrono_literals;
using strand = net::strand<net::io_context::executor_type>;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

cobalt::task<void> call(const char* who, int priority, canigo::semaphore& slots, const strand& own) {
  canigo::permit slot = co_await slots.async_acquire({.priority = priority}, cobalt::use_op);
  fmt::print("{} has the slot, on its own strand: {}\n", who, own.running_in_this_thread());
}

cobalt::task<void> call_in_a_hurry(canigo::permit& taken, canigo::semaphore& slots) {
  net::steady_timer soon{co_await cobalt::this_coro::executor, 1ms};
  auto first =
      co_await cobalt::left_race(slots.async_acquire({.priority = 0}, cobalt::use_op), soon.async_wait(cobalt::use_op));
  fmt::print("left: {}, waiting: {}\n", first.index() == 1, slots.stats().waiting);
  taken.release();
}

/// A policy returns Asio's awaitables. co_spawn turns one into an operation that Cobalt can await.
cobalt::task<void> call_by_policy(canigo::policy& upstream) {
  const auto ask = []() -> net::awaitable<int> { co_return 42; };
  int answer = co_await net::co_spawn(co_await cobalt::this_coro::executor, upstream.run(ask), cobalt::use_op);
  fmt::print("answer: {}\n", answer);
}

int main() {
  net::io_context io;
  canigo::semaphore slots{io, {.permits = 1, .priorities = 2}};
  canigo::policy upstream{io, {.timeout = 1h, .limits = canigo::limiter_options{.concurrency = 1}}};
  canigo::permit taken = *slots.try_acquire();
  const strand a = net::make_strand(io);
  const strand b = net::make_strand(io);
  cobalt::spawn(a, call("batch", 1, slots, a), rethrow);
  cobalt::spawn(b, call("user", 0, slots, b), rethrow);
  cobalt::spawn(net::make_strand(io), call_in_a_hurry(taken, slots), rethrow);
  io.run();
  io.restart();
  cobalt::spawn(net::make_strand(io), call_by_policy(upstream), rethrow);
  io.run();
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
