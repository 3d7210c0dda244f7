#include "canigo/pool.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

TEST_CASE("the deadline of a task covers waiting and attempts") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto busy = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); });
  auto late = pool.submit([] {}, {.deadline = b.time.now() + 50ms});
  auto cut = pool.submit(
      [&](task_context& t) -> net::awaitable<void> {
        CHECK(t.deadline() == b.time.now() + 30ms);
        CHECK(t.request(0).deadline == t.deadline());
        co_await sleep_for(1h);
      },
      {.timeout = 1h, .deadline = b.time.now() + 130ms});
  auto tried =
      pool.submit([]() { throw std::runtime_error{"no"}; },
                  {.retry = {.attempts = 100, .backoff = backoff::constant(40ms)}, .deadline = b.time.now() + 300ms});
  b.time.run_for(60ms);
  CHECK(late.state() == task_state::timed_out);
  b.time.run();
  CHECK(cut.state() == task_state::timed_out);
  CHECK(tried.state() == task_state::failed);
  CHECK(b.ms() < 300);
}

TEST_CASE("a task that is to be tried again and finds no worker ends at its deadline, with a delay or without") {
  for (const duration delay : {0ms, 20ms}) {
    bench_top b;
    strand_pool pool{b.io, {.concurrency = 1, .priorities = 2}};
    auto tried = pool.submit(
        [](task_context&) -> net::awaitable<void> {
          co_await sleep_for(10ms);
          throw std::runtime_error{"no"};
        },
        {.priority = 1,
         .retry = {.attempts = 2, .backoff = backoff::constant(delay)},
         .deadline = b.time.now() + 300ms});
    b.time.run_for(5ms);
    auto busy = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
    b.time.run_for(294ms);
    CHECK(busy.state() == task_state::running);
    CHECK(tried.state() == task_state::queued);
    b.time.run_for(1ms);
    CHECK(tried.state() == task_state::timed_out);
    CHECK(busy.state() == task_state::running);
    b.time.run();
  }
}

TEST_CASE("a producer that a full pool holds back ends at its deadline, and its operation never runs") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
  auto busy = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
  b.time.poll();
  auto queued = pool.submit([] {});
  std::vector<long> ends;
  bool ran = false;
  for (const duration delay : {0ms, 500ms}) {
    pool.async_run([&ran] { ran = true; }, {.delay = delay, .deadline = b.time.now() + 300ms},
                   [&](const std::exception_ptr& e) {
                     CHECK(code_of(e) == errc::timed_out);
                     ends.push_back(b.ms());
                   });
  }
  pool.async_run([] {}, {},
                 [&](const std::exception_ptr& e) {
                   CHECK_FALSE(e);
                   ends.push_back(b.ms());
                 });
  b.time.run_for(299ms);
  CHECK(pool.stats().held_back == 3);
  CHECK(ends.empty());
  b.time.run_for(1ms);
  CHECK(pool.stats().held_back == 1);
  CHECK(ends == std::vector{300L, 300L});
  b.time.run();
  CHECK(ends == std::vector{300L, 300L, 1000L});
  CHECK_FALSE(ran);
  CHECK(pool.stats().timed_out == 2);
  adds_up(pool.stats());
}

TEST_CASE("an operation is told that it shall end: by its owner, by its timeout, by a stop") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  std::vector<bool> asked(3);
  const auto op = [&](std::size_t i) {
    return [&asked, i](task_context& t) -> net::awaitable<void> {
      CHECK_FALSE(t.stop_requested());
      CHECK(t.worker() < 3);
      CHECK(t.executor() == co_await net::this_coro::executor);
      co_await stubborn(100ms);
      asked[i] = t.stop_requested();
    };
  };
  auto cancelled = pool.submit(op(0));
  auto late = pool.submit(op(1), {.timeout = 50ms});
  auto stopped = pool.submit(op(2));
  b.time.run_for(10ms);
  cancelled.cancel();
  b.time.run_for(70ms);
  CHECK(late.state() == task_state::timed_out);
  pool.request_stop(stop_mode::cancel_all);
  b.time.run();
  CHECK(asked == std::vector<bool>{true, true, true});
  CHECK(cancelled.state() == task_state::succeeded);  // it was asked to end, and did its work all the same
  CHECK(stopped.state() == task_state::succeeded);
}

TEST_CASE("an operation that occupies the only thread is told that its time is over") {
  net::io_context io;
  bool was_asked = false;
  {
    strand_pool pool{io, {.concurrency = 1}};
    const auto begin = std::chrono::steady_clock::now();  // the attempt begins later
    (void)pool.try_post(
        [&was_asked, begin](task_context& t) {
          while (!t.stop_requested() && std::chrono::steady_clock::now() - begin < 1min) {
          }
          was_asked = t.stop_requested() && std::chrono::steady_clock::now() - begin >= 5ms;
        },
        {.timeout = 5ms});
    pool.request_stop(stop_mode::drain);
    io.run();
  }
  CHECK(was_asked);
}

TEST_CASE("an operation without options has no deadline, one attempt, and its worker's executor") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::vector<net::any_io_executor> executors;
  for (int i = 0; i < 2; ++i) {
    (void)pool.try_post([&](task_context& t) -> net::awaitable<void> {
      CHECK(t.deadline() == time_point::max());
      CHECK(t.attempt() == 1);
      executors.push_back(t.executor());
      co_await sleep_for(1ms);
    });
  }
  b.time.run();
  REQUIRE(executors.size() == 2);
  CHECK(executors[0] != executors[1]);
  CHECK(executors[0] != net::require(executors[0], net::execution::blocking.never));
}

TEST_CASE("who waits for a short operation is told when its time is up, while it still runs") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  task<void> t;
  task_state during = task_state::queued;
  const auto takes_long = [&] {
    b.time.run_for(2s);
    during = t.state();
  };
  const retry_policy twice{.attempts = 2, .backoff = backoff::constant(0s)};
  SECTION("it has one attempt") {
    t = pool.submit(takes_long, {.timeout = 1s});
    b.time.run();
    CHECK(during == task_state::timed_out);
    CHECK(pool.stats().overdue_total == 1);
  }
  SECTION("it has another one, but no time") {
    t = pool.submit(takes_long, {.timeout = 1s, .retry = twice, .deadline = b.time.now() + 1s});
    b.time.run();
    CHECK(during == task_state::timed_out);
    CHECK(pool.stats().overdue_total == 1);
  }
  SECTION("it has another one: what comes late counts") {
    t = pool.submit(takes_long, {.timeout = 1s, .retry = twice});
    b.time.run();
    CHECK(during == task_state::running);
    CHECK(t.state() == task_state::succeeded);
  }
  CHECK(pool.stats().working == 0);
  adds_up(pool.stats());
}

TEST_CASE("what an operation posts to its executor does not run at the same time as the next one on that worker") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::vector<int> order;
  (void)pool.try_post([&](task_context& t) {
    net::post(t.executor(), [&] { order.push_back(3); });
    order.push_back(1);
  });
  (void)pool.try_post([&] { order.push_back(2); });
  b.time.run();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("a post to a strand above a worker's executor never runs at once") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  bool is_inside = false;
  bool has_run = false;
  auto task = pool.submit([&](task_context& t) -> net::awaitable<void> {
    const net::any_io_executor above{net::make_strand(net::any_io_executor{t.executor()})};
    net::post(above, [&, above] {
      is_inside = true;
      net::post(above, [&] { has_run = !is_inside; });
      is_inside = false;
    });
    co_await sleep_for(1ms);
  });
  b.time.run();
  CHECK(task.state() == task_state::succeeded);
  CHECK(has_run);
}
