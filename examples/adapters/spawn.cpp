// How to await limits from stackful coroutines: docs/adapters.md
#include <canigo/cancel_after.hpp>
#include <canigo/semaphore.hpp>

#include <asio.hpp>
#include <asio/spawn.hpp>
#include <fmt/core.h>

#include <exception>
#include <utility>

using namespace std::chrono_literals;
using strand = asio::strand<asio::io_context::executor_type>;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

void call(const char* who, int priority, canigo::semaphore& slots, const strand& own, asio::yield_context yield) {
  canigo::permit slot = slots.async_acquire({.priority = priority}, yield);
  fmt::print("{} has the slot, on its own strand: {}\n", who, own.running_in_this_thread());
  asio::post(own, yield);  // takes the place of the real call
}

void call_in_a_hurry(canigo::semaphore& slots, asio::yield_context yield) {
  std::error_code error;
  canigo::permit slot = slots.async_acquire({.priority = 0}, canigo::cancel_after(1ms, yield[error]));
  fmt::print("in a hurry: {}, with a slot: {}\n", error.message(), bool{slot});
}

/// From Asio 1.24 on, spawn() has another form, which passes exceptions to a completion token.
template <class F>
void start(const strand& own, F function) {
#if ASIO_VERSION < 102400
  asio::spawn(own, std::move(function));
#else
  asio::spawn(own, std::move(function), rethrow);
#endif
}

int main() {
  asio::io_context io;
  canigo::semaphore slots{io, {.permits = 1, .priorities = 2}};
  canigo::permit taken = *slots.try_acquire();
  strand a = asio::make_strand(io);
  strand b = asio::make_strand(io);
  start(a, [&](asio::yield_context yield) { call("batch", 1, slots, a, yield); });
  start(b, [&](asio::yield_context yield) { call("user", 0, slots, b, yield); });
  start(asio::make_strand(io), [&](asio::yield_context yield) {
    call_in_a_hurry(slots, yield);
    taken.release();
  });
  io.run();
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
