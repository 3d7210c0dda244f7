// Several tenants share one quota, and one of them floods it. Without flows its calls go before those of the others;
// with a flow for each tenant, each gets its share. Time is virtual (see 02_priorities.cpp), so the figures are exact.
#include <canigo/flow.hpp>
#include <canigo/scheduler.hpp>
#include <canigo/testing/virtual_time.hpp>
#include <canigo/timeout.hpp>

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using canigo::rate;

struct tenant {
  std::string name;
  canigo::flow* flow = nullptr;  // null: all tenants wait in one queue
  int calls = 0;
  canigo::duration longest = 0s;
};

void rethrow(std::exception_ptr error) {
  if (error) std::rethrow_exception(error);
}

asio::awaitable<void> call(canigo::scheduler& quota, canigo::testing::virtual_time& time, tenant& t) {
  const auto asked = time.now();
  co_await quota.acquire({.flow = t.flow});
  ++t.calls;
  t.longest = std::max(t.longest, time.now() - asked);
}

/// Sends `calls` calls at the same time, and repeats that after each `every`.
asio::awaitable<void> send(canigo::scheduler& quota, canigo::testing::virtual_time& time, tenant& t, int calls,
                           canigo::duration every) {
  const auto executor = co_await asio::this_coro::executor;
  for (;; co_await canigo::sleep_for(every)) {
    for (int i = 0; i < calls; ++i) asio::co_spawn(executor, call(quota, time, t), rethrow);
  }
}

void run(const char* title, bool fair) {
  asio::io_context io;
  canigo::testing::virtual_time time{io};  // must precede the first canigo object on `io`
  canigo::scheduler quota{io, {.rate = rate::per_second(10)}};
  // Gold has three shares, each other tenant one. The trial tenant gets at most two calls per second, even if more are
  // free.
  canigo::flow gold{quota, {.weight = 3}}, crawler{quota}, trial{quota, {.rates = {{rate::per_second(2)}}}};
  tenant tenants[] = {{"gold"}, {"crawler"}, {"trial"}};
  if (fair) {
    tenants[0].flow = &gold;
    tenants[1].flow = &crawler;
    tenants[2].flow = &trial;
  }
  asio::co_spawn(io, send(quota, time, tenants[1], 500, 1h), rethrow);  // a flood of calls, sent only once
  asio::co_spawn(io, send(quota, time, tenants[0], 4, 1s), rethrow);
  asio::co_spawn(io, send(quota, time, tenants[2], 1, 500ms), rethrow);
  time.run_for(20s);
  fmt::print("{}\n", title);
  for (const tenant& t : tenants) {
    if (t.calls == 0) {
      fmt::print("  {:7}  no call in 20 s\n", t.name);
    } else {
      fmt::print("  {:7} {:3} calls in 20 s, the longest waited {:5} ms\n", t.name, t.calls, t.longest / 1ms);
    }
  }
}

int main() {
  run("10 per second, one queue for all", false);
  run("10 per second, a flow for each tenant", true);
}
