// An upstream hangs for half a minute and comes back. A server that waits for it can't answer meanwhile, not even pages
// that do not need the upstream. With a circuit breaker it can. Time is virtual (see 02_priorities.cpp).
#include <canigo/circuit_breaker.hpp>
#include <canigo/semaphore.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>
#include <optional>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

constexpr auto minute = 60s, step = 10s;

class server {
 public:
  explicit server(bool has_breaker) {
    if (has_breaker)
      breaker_.emplace(io_, canigo::circuit_breaker_options{.least_calls = 10, .window = 2s, .open_for = 2s});
  }

  void run(const char* title) {
    fmt::print("{}\n    time     whole  stale  none\n", title);
    asio::co_spawn(io_, users(), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    now_.run();
    outcomes all;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const outcomes& o = steps_[i];
      fmt::print("  {:2}..{:2} s  {:6} {:6} {:5}{}\n", 10 * i, 10 * i + 10, o.whole, o.stale, o.none,
                 is_down(canigo::time_point{step * static_cast<int>(i)}) ? "  upstream hangs" : "");
      all.whole += o.whole;
      all.stale += o.stale;
      all.none += o.none;
    }
    fmt::print("  goodput {:4.1f} % of {} pages\n", 100. * (all.whole + all.stale) / (all.whole + all.stale + all.none),
               all.whole + all.stale + all.none);
  }

 private:
  struct outcomes {
    int whole = 0;  // the number of complete pages: with the upstream's current price, or without any price
    int stale = 0;  // the number of pages with an old price
    int none = 0;   // the number of pages that got no answer within a second
  };

  static bool is_down(canigo::time_point t) { return t >= canigo::time_point{10s} && t < canigo::time_point{40s}; }

  asio::awaitable<void> upstream() {
    co_await canigo::sleep_for(is_down(now_.now()) ? canigo::duration{1h} : canigo::duration{50ms});
  }

  asio::awaitable<void> price() {
    if (breaker_) {
      co_await canigo::with_breaker(canigo::with_timeout(upstream(), 2s), *breaker_);
    } else {
      co_await canigo::with_timeout(upstream(), 2s);
    }
  }

  // Every second page shows a price, which the server gets from the upstream.
  asio::awaitable<void> page(bool has_price) {
    const auto since = now_.now();
    outcomes& o = steps_[static_cast<std::size_t>(since.time_since_epoch() / step)];
    bool is_whole = true;
    try {
      const canigo::permit place = co_await places_.acquire({.deadline = since + 1s});
      try {
        if (has_price) co_await price();
      } catch (const canigo::circuit_open_error&) {
        is_whole = false;  // an old price is better than no price
      }
    } catch (const std::system_error&) {
      ++o.none;
      co_return;
    }
    ++(now_.now() - since > 1s ? o.none : is_whole ? o.whole : o.stale);
  }

  asio::awaitable<void> users() {
    for (int i = 0; now_.elapsed() < minute; ++i) {
      asio::co_spawn(io_, page(i % 2 == 0), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
      co_await canigo::sleep_for(10ms);
    }
  }

  asio::io_context io_;
  canigo::testing::virtual_time now_{io_};
  canigo::semaphore places_{io_, {.permits = 20}};
  std::optional<canigo::circuit_breaker> breaker_;
  std::vector<outcomes> steps_ = std::vector<outcomes>(minute / step);
};

int main() {
  server{false}.run("Without a circuit breaker:");
  server{true}.run("With one:");
}
