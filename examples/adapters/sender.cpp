// How to await limits as senders of stdexec: docs/adapters.md
#include <canigo/semaphore.hpp>

#include <asio.hpp>
#include <exec/asio/use_sender.hpp>
#include <exec/when_any.hpp>
#include <fmt/core.h>
#include <stdexec/execution.hpp>

#include <chrono>
#include <thread>
#include <utility>

namespace senders = exec::asio;
using senders::use_sender;

/// A call that needs a slot. A sender has no executor, so the call runs on the loop of the limit.
auto call(const char* who, int priority, asio::io_context& io, canigo::semaphore& slots) {
  return slots.async_acquire({.priority = priority}, use_sender) | stdexec::then([who, &io](auto&&...) {
           fmt::print("{} is served, on the loop of the limit: {}\n", who, io.get_executor().running_in_this_thread());
         });
}

int main() {
  asio::io_context io;
  canigo::semaphore slots{io, {.permits = 1, .priorities = 2}};
  canigo::permit taken = *slots.try_acquire();
  asio::steady_timer soon{io, std::chrono::milliseconds{1}};
  auto in_a_hurry = exec::when_any(slots.async_acquire({}, use_sender) | stdexec::then([](auto&&...) { return true; }),
                                   soon.async_wait(use_sender) | stdexec::then([](auto&&...) { return false; })) |
                    stdexec::then([&](bool is_served) {
                      fmt::print("in a hurry: {}, waiting: {}\n", is_served, slots.stats().waiting);
                      taken.release();
                    });
  auto work = asio::make_work_guard(io);
  std::thread loop{[&io] { io.run(); }};
  stdexec::sync_wait(stdexec::when_all(call("batch", 1, io, slots), call("user", 0, io, slots), std::move(in_a_hurry)));
  work.reset();
  loop.join();  // the last call has given its slot back
  fmt::print("free in the end: {}\n", slots.try_acquire().has_value());
}
