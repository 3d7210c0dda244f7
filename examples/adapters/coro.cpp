// How to await limits from asio::experimental::coro: docs/adapters.md
#include <canigo/semaphore.hpp>

#include <asio.hpp>
#include <asio/experimental/co_spawn.hpp>
#include <asio/experimental/coro.hpp>
#include <asio/experimental/use_coro.hpp>
#include <fmt/core.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>

using asio::experimental::coro;
using strand = asio::strand<asio::io_context::executor_type>;

/// The completion token with which a coro awaits an operation: docs/adapters.md explains why it is not always use_coro.
#if ASIO_VERSION < 102400
constexpr auto& in_coro = asio::experimental::use_coro;
#else
constexpr auto in_coro = asio::deferred;
#endif

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

/// Takes one slot for each page. The executor is the second parameter, and the limit follows it: see docs/adapters.md
coro<int> pages(int priority, asio::any_io_executor, canigo::semaphore& slots) {
  for (int page = 1; page <= 2; ++page) {
    canigo::permit slot = co_await slots.async_acquire({.priority = priority}, in_coro);
    co_yield page;
  }
}

coro<void, void> read(std::string who, asio::any_io_executor executor, canigo::semaphore& slots, int priority,
                      const strand& own) {
  coro<int> all = pages(priority, executor, slots);
  while (const std::optional<int> page = co_await all) {
    fmt::print("{} has page {}, on its own strand: {}\n", who, *page, own.running_in_this_thread());
  }
}

coro<void, void> read_until_cancelled(canigo::permit& taken, asio::any_io_executor, canigo::semaphore& slots) {
  try {
    canigo::permit slot = co_await slots.async_acquire({.priority = 0}, in_coro);
  } catch (const std::system_error& e) {
    fmt::print("cancelled: {}, waiting: {}\n", e.code() == asio::error::operation_aborted, slots.stats().waiting);
  }
  taken.release();
}

int main() {
  asio::io_context io;
  canigo::semaphore slots{io, {.permits = 1, .priorities = 2}};
  canigo::permit taken = *slots.try_acquire();
  const strand a = asio::make_strand(io);
  const strand b = asio::make_strand(io);
  asio::experimental::co_spawn(read("batch", a, slots, 1, a), rethrow);
  asio::experimental::co_spawn(read("user", b, slots, 0, b), rethrow);
  const strand c = asio::make_strand(io);
  asio::cancellation_signal stop;
  asio::experimental::co_spawn(read_until_cancelled(taken, c, slots),
                               asio::bind_cancellation_slot(stop.slot(), asio::bind_executor(c, rethrow)));
  asio::post(c, [&stop] { stop.emit(asio::cancellation_type::terminal); });
  io.run();
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
