#include "canigo/task_context.hpp"

#include "canigo/strand_pool.hpp"

#include "catch.hpp"
#include "pool_run.hpp"

#include <asio/post.hpp>

#include <cstddef>
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

TEST_CASE("what an operation posts to its executor does not run at the same time as the next one on that worker") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::vector<int> order;
  pool.try_post([&](task_context& t) {
    net::post(t.executor(), [&] { order.push_back(3); });
    order.push_back(1);
  });
  pool.try_post([&] { order.push_back(2); });
  b.time.run();
  CHECK(order == std::vector<int>{1, 2, 3});
}
