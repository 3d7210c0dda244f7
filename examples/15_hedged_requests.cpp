// A second copy of a slow request: how it shortens the slowest calls, and why it needs a budget.
//
// The service answers in 10 ms, but one call in twenty hangs for a second. Hedge only work that may safely run twice.
// Time is virtual (see 02_priorities.cpp).
#include <canigo/algorithms/histogram.hpp>
#include <canigo/algorithms/latency_window.hpp>
#include <canigo/hedge.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <exception>

using namespace std::chrono_literals;

struct service {
  canigo::duration usual = 10ms;
  int calls = 0;

  asio::awaitable<int> get() {
    const bool hangs = ++calls % 20 == 0;
    co_await canigo::sleep_for(hangs ? 1s : usual);
    co_return 200;
  }
};

struct experiment {
  asio::io_context io;
  canigo::testing::virtual_time time{io};  // must precede the first canigo object on `io`
  service far;
  canigo::retry_budget budget{canigo::hedge_budget};  // copies: at most 5 % of the calls, and 10 at the start
  canigo::latency_window latencies;
  canigo::wait_histogram took;
};

asio::awaitable<void> plain(experiment& e) {
  for (int i = 0; i < 1'000; ++i) {
    const auto start = e.time.now();
    co_await e.far.get();
    e.took.record(e.time.now() - start);
  }
}

// A copy starts when a call takes longer than 90 % of the calls of the last minute.
asio::awaitable<void> hedged(experiment& e) {
  for (int i = 0; i < 1'000; ++i) {
    const auto start = e.time.now();
    co_await canigo::hedge([&e] { return e.far.get(); },
                           {.after = canigo::quantile{0.9}, .budget = &e.budget, .window = &e.latencies});
    e.took.record(e.time.now() - start);
  }
}

// The service is so slow that every call is slow enough for a copy.
asio::awaitable<void> overloaded(experiment& e) {
  e.far.usual = 300ms;
  for (int i = 0; i < 1'000; ++i) {
    co_await canigo::hedge([&e] { return e.far.get(); }, {.after = 50ms, .budget = &e.budget});
  }
}

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

template <class Main>
void run(const char* title, Main main) {
  experiment e;
  asio::co_spawn(e.io, main(e), rethrow);
  e.time.run();
  fmt::print("{:11} {:4} calls in all", title, e.far.calls);
  if (e.took.count() > 0) {
    fmt::print("; 50 % within {:2} ms, 99 % within {:4} ms", e.took.quantile(0.5) / 1ms, e.took.quantile(0.99) / 1ms);
  }
  fmt::print("\n");
}

int main() {
  run("plain:", plain);
  run("hedged:", hedged);
  run("overloaded:", overloaded);
}
