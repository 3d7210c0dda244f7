#pragma once

// The common parts of the tests of pools.

#include "canigo/pool.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace pool_run {

namespace net = canigo::net;

/// An io_context in virtual time.
struct bench_top {
  net::io_context io;
  canigo::testing::virtual_time time{io};

  auto ms() const { return std::chrono::duration_cast<std::chrono::milliseconds>(time.elapsed()).count(); }
  template <class F>
  void spawn(F f) {
    net::co_spawn(io, std::move(f), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  }
};

inline void adds_up(const canigo::pool_stats& s) {
  CHECK(s.submitted == s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped + s.queued + s.delayed +
                           s.held_back + s.working);
}

inline void adds_up(const canigo::stop_report& r) {
  CHECK(r.submitted == r.succeeded + r.failed + r.cancelled + r.timed_out + r.stopped);
}

/// Suspends a coroutine until the test calls `resume`.
inline net::awaitable<void> until(std::function<void()>& resume) {
  co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(
      [&resume](auto handler) {
        const auto h = std::make_shared<decltype(handler)>(std::move(handler));
        resume = [h] { std::move (*h)(); };
      },
      net::use_awaitable);
}

/// Calls a function in its destructor.
struct last_words {
  explicit last_words(std::function<void()> f) : call{std::move(f)} {}
  last_words(last_words&& other) noexcept : call{std::exchange(other.call, nullptr)} {}
  ~last_words() {
    if (call) call();
  }
  std::function<void()> call;
};

/// Returns the error that stopped a closed pool; empty if there was none.
template <class Pool>
net::awaitable<std::string> cause_of_end(Pool& pool) {
  try {
    co_await pool.closed();
  } catch (const canigo::fatal_error& e) {
    co_return std::string{e.what()};
  }
  co_return std::string{};
}

/// Sleeps without reacting to a cancellation.
inline net::awaitable<void> stubborn(canigo::duration d) {
  co_await net::this_coro::throw_if_cancelled(false);
  const auto until = canigo::time_source::of(co_await net::this_coro::executor).now() + d;
  while (canigo::time_source::of(co_await net::this_coro::executor).now() < until) {
    try {
      co_await canigo::sleep_until(until);
    } catch (const std::system_error&) {
    }
    co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
  }
}

/// A class that counts its living objects.
struct thing {
  explicit thing(int& n) : alive{&n} { ++n; }
  thing(thing&& other) noexcept : alive{std::exchange(other.alive, nullptr)} {}
  ~thing() {
    if (alive != nullptr) --*alive;
  }
  int* alive;
};

}  // namespace pool_run
