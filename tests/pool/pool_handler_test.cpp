// Where completions run, what an operation and a handler may do to their own pool, and what a user's exception may not.

#include "canigo/cancel.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

TEST_CASE("a handler is called on its own executor, and never inside the call that starts the wait") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1}};
  const auto strand = net::make_strand(b.io);
  int called = 0;
  bool inside = true;
  const auto on_strand = [&] {
    return net::bind_executor(strand, [&](std::exception_ptr) {
      CHECK_FALSE(inside);
      CHECK(strand.running_in_this_thread());
      ++called;
    });
  };
  pool.async_run([] {}, {}, on_strand());
  auto t = pool.submit([] {});
  t.async_wait(on_strand());
  pool.async_run([] {}, {}, on_strand());  // refused: the queue is full
  inside = false;
  b.time.run();
  inside = true;
  t.async_wait(on_strand());  // has ended
  pool.request_stop(stop_mode::drain);
  pool.async_run([] {}, {}, on_strand());  // refused
  inside = false;
  b.time.run();
  CHECK(called == 5);
}

TEST_CASE("a coroutine on a strand waits for a pool and comes back to its strand") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  const auto strand = net::make_strand(b.io);
  int steps = 0;
  net::co_spawn(
      strand,
      [&]() -> net::awaitable<void> {
        co_await pool.run([&] { CHECK_FALSE(strand.running_in_this_thread()); });
        CHECK(strand.running_in_this_thread());
        ++steps;
        const auto t = pool.submit([](task_context&) { return sleep_for(1ms); }, {.group = 1});
        co_await pool.wait_group(1);
        CHECK(strand.running_in_this_thread());
        co_await t.result();
        CHECK(strand.running_in_this_thread());
        co_await pool.stop();
        CHECK(strand.running_in_this_thread());
        ++steps;
      },
      net::detached);
  b.time.run();
  CHECK(steps == 2);
}

TEST_CASE("a pool runs on a strand of a context, and on a thread pool") {
  bench_top b;
  strand_pool on_strand{net::make_strand(b.io), {.concurrency = 2}};
  int ran = 0;
  b.spawn([&]() -> net::awaitable<void> {
    for (int i = 0; i < 10; ++i) ran += co_await on_strand.run([] { return 1; });
  });
  b.time.run();
  CHECK(ran == 10);

  net::thread_pool threads{3};
  strand_pool on_threads{threads, {.concurrency = 3, .queue_limit = 1000}};
  std::vector<std::future<int>> results;
  for (int i = 0; i < 200; ++i) {
    if (i % 2 == 0) {
      results.push_back(on_threads.async_run([] { return 1; }, {}, net::use_future));
    } else {
      const auto waits = []() -> net::awaitable<int> {
        co_await sleep_for(10us);
        co_return 1;
      };
      results.push_back(on_threads.async_run(waits, {}, net::use_future));
    }
  }
  int sum = 0;
  for (auto& r : results) sum += r.get();
  CHECK(sum == 200);
  threads.stop();
  threads.join();
}

TEST_CASE("an operation may submit to its own pool, resize it and stop it") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::optional<task<int>> inner;
  int ran = 0;
  (void)pool.try_post([&] {
    ++ran;
    (void)pool.try_post([&] { ++ran; });
    inner = pool.submit([] { return 3; }, {.delay = 1ms});
    pool.resize(5);
    (void)pool.stats();
  });
  b.time.run();
  CHECK(ran == 2);
  CHECK(inner->state() == task_state::succeeded);
  CHECK(pool.stats().sleeping == 5);
  auto last = pool.submit([&](task_context&) -> net::awaitable<void> {
    pool.request_stop(stop_mode::finish_running);
    CHECK_FALSE(pool.try_post([] {}));
    co_await sleep_for(1ms);
  });
  b.time.run();
  CHECK(last.state() == task_state::succeeded);
  CHECK(pool.is_closed());
}

TEST_CASE("an operation that cancels itself, and one that stops all with itself, end as cancelled") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  task<void> self;
  self = pool.submit([&](task_context& t) -> net::awaitable<void> {
    CHECK(self.cancel());
    CHECK(t.stop_requested());
    co_await sleep_for(1h);
  });
  b.time.run();
  CHECK(self.state() == task_state::cancelled);
  auto all = pool.submit([&](task_context&) -> net::awaitable<void> {
    pool.request_stop(stop_mode::cancel_all);
    co_await sleep_for(1h);
  });
  b.time.run();
  CHECK(all.state() == task_state::cancelled);
  CHECK(pool.is_closed());
  CHECK(b.ms() == 0);
}

TEST_CASE("an operation, or who is told of its end, may destroy the pool") {
  for (int who = 0; who < 4; ++who) {
    bench_top b;
    auto pool = std::make_unique<strand_pool>(b.io, strand_pool_options{.concurrency = 2});
    bool after = false;
    auto queued = std::make_shared<int>(1);
    switch (who) {
      case 0:
        (void)pool->try_post([&] {
          pool.reset();
          after = true;
        });
        break;
      case 1:
        (void)pool->try_post([&](task_context&) -> net::awaitable<void> {
          pool.reset();
          after = true;
          co_await sleep_for(1h);
          after = false;
        });
        break;
      case 2:
        pool->async_run([] {}, {},
                        [&](std::exception_ptr) {
                          pool.reset();
                          after = true;
                        });
        break;
      default:
        b.spawn([&, t = pool->submit([] { return 1; })]() -> net::awaitable<void> {
          co_await t.result();
          pool.reset();
          after = true;
        });
        break;
    }
    for (int i = 0; i < 5; ++i) (void)pool->try_post([queued](task_context&) { return sleep_for(1h); });
    b.time.run();
    CHECK(after);
    CHECK(pool == nullptr);
    CHECK(queued.use_count() == 1);
    CHECK(b.ms() == 0);
  }
}

TEST_CASE("workers yield to the loop, however much there is to do") {
  net::io_context io;
  strand_pool pool{io, {.concurrency = 1, .queue_limit = 100'000}};
  int ran = 0, most_between = 0, last = 0, turns = 0;
  for (int i = 0; i < 10'000; ++i) (void)pool.try_post([&ran] { ++ran; });
  struct other {
    net::io_context& io;
    int &ran, &most, &last, &turns;
    void operator()() const {
      most = std::max(most, ran - last);
      last = ran;
      if (++turns < 1000 && ran < 10'000) net::post(io, *this);
    }
  };
  net::post(io, other{io, ran, most_between, last, turns});
  io.run();
  CHECK(ran == 10'000);
  CHECK(most_between <= 64);
}

namespace {

/// Whose move may throw.
struct fickle {
  explicit fickle(bool t) : throws{t} {}
  fickle(fickle&& other) : throws{other.throws} {
    if (throws) throw std::runtime_error{"moved"};
  }
  bool throws;
};

}  // namespace

TEST_CASE("what throws in a callable, its copy or its result leaves the pool as it was") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  const auto unlucky = [f = std::make_shared<int>(1)]() -> int { throw std::runtime_error{"called"}; };
  CHECK(pool.try_post(unlucky));

  struct uncopyable_today {
    uncopyable_today() = default;
    uncopyable_today(const uncopyable_today&) { throw std::runtime_error{"copied"}; }
    void operator()() const {}
  };
  const uncopyable_today copied;
  CHECK_THROWS_AS(pool.try_post(copied), std::runtime_error);
  CHECK_THROWS_AS(pool.submit(copied), std::runtime_error);
  CHECK(pool.stats().submitted == 1);

  struct keeper {
    void operator()() const {}
    std::unique_ptr<int> kept = std::make_unique<int>(1);
  } kept;
  CHECK_THROWS_AS(pool.try_post(std::move(kept), {.priority = 1}), std::system_error);
  CHECK_THROWS_AS(pool.submit(std::move(kept), {.delay = -1s}), std::system_error);
  CHECK(kept.kept != nullptr);

  bool told = false;
  b.spawn([&]() -> net::awaitable<void> {
    try {
      co_await pool.run([] { return fickle{true}; });
    } catch (const std::runtime_error& e) {
      told = std::string_view{e.what()} == "moved";
    }
    const fickle f = co_await pool.run([] { return fickle{false}; });
    CHECK_FALSE(f.throws);
  });
  b.time.run();
  CHECK(told);
  CHECK(pool.stats().failed >= 1);
  adds_up(pool.stats());

  struct thrown_at_its_end {
    ~thrown_at_its_end() { ++*n; }
    int* n;
  };
  int gone = 0;
  (void)pool.try_post([&gone] { throw thrown_at_its_end{&gone}; });
  b.time.run();
  CHECK(gone == 1);
  CHECK(pool.stats().sleeping == 1);
}

TEST_CASE("a run whose owner was cancelled before it began is never run") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  cancel_source stop;
  bool ran = false;
  std::error_code ec;
  b.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(stop.wrap(pool.run([&ran] { ran = true; }))); });
  stop.cancel();
  b.time.run();
  CHECK(ec == net::error::operation_aborted);
  CHECK_FALSE(ran);
}

TEST_CASE("a stop only ever gets harder, and all who wait for it are told the same") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  const auto op = [](task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); };
  std::vector<task<void>> tasks;
  for (int i = 0; i < 4; ++i) tasks.push_back(pool.submit(op));
  std::vector<stop_report> reports;
  const auto stop = [&](stop_mode mode, duration grace) {
    b.spawn([&, mode, grace]() -> net::awaitable<void> { reports.push_back(co_await pool.stop(mode, grace)); });
    b.time.poll();
  };
  b.time.run_for(50ms);
  stop(stop_mode::drain, duration::max());
  b.time.run_for(100ms);
  CHECK(tasks[1].state() == task_state::running);
  stop(stop_mode::finish_running, 10s);
  CHECK(tasks[2].state() == task_state::stopped);
  stop(stop_mode::drain, duration::max());  // too late
  stop(stop_mode::finish_running, 20ms);    // the shorter grace counts
  stop(stop_mode::finish_running, 10s);
  b.time.run_for(20ms);
  CHECK(tasks[1].state() == task_state::cancelled);
  stop(stop_mode::cancel_all, duration::max());
  b.time.run();
  REQUIRE(reports.size() == 6);
  for (const auto& r : reports) {
    CHECK(r.submitted == 4);
    CHECK(r.succeeded == 1);
    CHECK(r.cancelled == 1);
    CHECK(r.stopped == 2);
    CHECK(r.escalated == 1);
    adds_up(r);
  }
}
