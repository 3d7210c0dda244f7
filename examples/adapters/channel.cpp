// How to use limits together with asio::experimental::channel: docs/adapters.md
#include <canigo/semaphore.hpp>

#include <asio.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/channel.hpp>
#include <fmt/format.h>

#include <exception>
#include <string>
#include <variant>

using namespace asio::experimental::awaitable_operators;
using jobs = asio::experimental::channel<void(std::error_code, std::string)>;
using strand = asio::strand<asio::io_context::executor_type>;

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

/// Waits at the limit first and at the channel second, so a consumer that is cancelled at the limit has taken no job.
asio::awaitable<void> consume(const strand& own, jobs& inbox, canigo::semaphore& slots, int priority) {
  for (;;) {
    canigo::permit slot = co_await slots.acquire({.priority = priority});
    std::string job = co_await inbox.async_receive(asio::use_awaitable);
    if (job.empty()) break;
    fmt::print("{}, on its own strand: {}\n", job, own.running_in_this_thread());
  }
}

asio::awaitable<void> wait_or_leave(jobs& leave, canigo::semaphore& slots) {
  auto first = co_await (slots.acquire({.priority = 0}) || leave.async_receive(asio::use_awaitable));
  fmt::print("left: {}, waiting: {}\n", first.index() == 1, slots.stats().waiting);
}

int main() {
  asio::io_context io;
  canigo::semaphore slots{io, {.permits = 1, .priorities = 2}};
  canigo::permit taken = *slots.try_acquire();
  const strand a = asio::make_strand(io);
  const strand b = asio::make_strand(io);
  jobs batch{a, 8};
  jobs user{b, 8};
  jobs leave{io, 1};
  for (jobs* inbox : {&batch, &user}) {
    const char* name = inbox == &user ? "user" : "batch";
    for (int i = 1; i <= 2; ++i) inbox->try_send(std::error_code{}, fmt::format("{} {}", name, i));
    inbox->try_send(std::error_code{}, std::string{});
  }
  asio::co_spawn(a, consume(a, batch, slots, 1), rethrow);
  asio::co_spawn(b, consume(b, user, slots, 0), rethrow);
  asio::co_spawn(io, wait_or_leave(leave, slots), [&](std::exception_ptr error) {
    rethrow(error);
    taken.release();
  });
  leave.try_send(std::error_code{}, "closed");
  io.run();
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
