// Who waits for what in a pool: from outside, from inside its own operations, and from those of another pool.

#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/pool_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/detached.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

namespace {

const std::error_code would_deadlock = std::make_error_code(std::errc::resource_deadlock_would_occur);
using codes = std::vector<std::error_code>;

/// A result that nothing can stand in for.
struct number {
  explicit number(int v) noexcept : value{v} {}
  int value;
};

}  // namespace

TEST_CASE("of two that wait for the same the first gives up, and the second is told") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  net::cancellation_signal signal;
  bool gave_up = false;
  net::co_spawn(b.io, pool.closed(), net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e, stop_report) {
                  gave_up = code_of(e) == net::error::operation_aborted;
                }));
  bool was_told = false;
  b.spawn([&]() -> net::awaitable<void> {
    co_await pool.closed();
    was_told = true;
  });
  b.time.poll();
  signal.emit(net::cancellation_type::terminal);
  b.time.poll();
  CHECK(gave_up);
  CHECK_FALSE(was_told);
  pool.request_stop(stop_mode::drain);
  b.time.run();
  CHECK(was_told);
}

TEST_CASE("an operation waits for several others of its pool at once") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::vector<int> ended;
  auto outer = pool.submit([&](task_context& t) -> net::awaitable<void> {
    task_group group{t.executor()};
    const auto inner = [&](int i) -> net::awaitable<void> {
      co_await pool.run([](task_context&) { return sleep_for(1ms); });
      ended.push_back(i);
    };
    for (int i = 0; i < 3; ++i) group.spawn(inner(i));
    co_await group.join();
  });
  b.time.run();
  CHECK(outer.state() == task_state::succeeded);
  CHECK(ended == std::vector<int>{0, 1, 2});
  CHECK(b.ms() == 3);
}

TEST_CASE("the only worker is refused to wait for its own pool, whatever it would wait for") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto later = pool.submit([] {}, {.delay = 1h, .group = 7});
  codes seen;
  (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
    seen.push_back(co_await outcome_of(later.result()));
    seen.push_back(co_await outcome_of(pool.wait_group(7)));
    seen.push_back(co_await outcome_of(pool.wait_group(8)));  // in which nobody is
    seen.push_back(co_await outcome_of(pool.closed()));
  });
  b.time.run_for(1s);
  CHECK(seen == codes{would_deadlock, would_deadlock, {}, would_deadlock});
  b.time.run();
  CHECK(later.state() == task_state::succeeded);
}

TEST_CASE("of the waits that a resize leaves hopeless those end for which nobody works") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  auto later = pool.submit([] {}, {.delay = 1h, .group = 7});
  codes seen(3);
  task<void> second;
  (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
    co_await sleep_for(1ms);
    seen[0] = co_await outcome_of(second.result());
  });
  second = pool.submit([&](task_context&) -> net::awaitable<void> {
    seen[1] = co_await outcome_of(pool.wait_group(7));
    seen[2] = co_await outcome_of(later.result());
  });
  b.time.run_for(2ms);
  pool.resize(2);
  b.time.run_for(1s);
  CHECK(seen == codes{{}, would_deadlock, would_deadlock});
  CHECK(second.state() == task_state::succeeded);
  CHECK(pool.stats().working == 0);
}

TEST_CASE("a wait is not hopeless while there are workers that sleep") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  auto later = pool.submit([] {}, {.delay = 1h});
  codes seen;
  (void)pool.try_post(
      [&](task_context&) -> net::awaitable<void> { seen.push_back(co_await outcome_of(later.result())); });
  b.time.poll();
  pool.resize(2);
  b.time.run();
  CHECK(seen == codes{{}});
  CHECK(b.ms() == 3'600'000);
}

TEST_CASE("a wait for what has just ended is not hopeless") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  auto later = pool.submit([w = last_words{[&] { pool.resize(1); }}] {}, {.delay = 1h});
  codes seen;
  (void)pool.try_post(
      [&](task_context&) -> net::awaitable<void> { seen.push_back(co_await outcome_of(later.result())); });
  b.time.poll();
  CHECK(pool.stats().working == 1);
  CHECK(later.cancel());
  b.time.run();
  CHECK(seen == codes{net::error::operation_aborted});
}

TEST_CASE("who waits in a pool is told although that pool works in the turn of another") {
  mood now = mood::posts;
  bench_top b;
  strand_pool outer{b.io, {.concurrency = 1}};
  strand_pool inner{net::any_io_executor{fickle_executor{b.io, [&now] { return now; }}}, {.concurrency = 1}};
  b.time.poll();
  now = mood::calls;
  int ran = 0, told = 0;
  (void)outer.try_post([&] {
    inner.async_run([&] { ++ran; }, {}, [&](const std::exception_ptr& e) { told += e == nullptr; });
    CHECK(ran == 1);
  });
  b.time.run();
  CHECK(told == 1);
}

TEST_CASE("two that wait for each other do so until one is cancelled") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  task<void> first, second;
  first = pool.submit([&](task_context&) { return second.result(); });
  second = pool.submit([&](task_context&) -> net::awaitable<void> { co_await outcome_of(first.result()); });
  b.time.poll();
  pool.resize(2);  // there is nothing that a refusal would free a worker for
  b.time.run();
  CHECK(pool.stats().working == 2);
  first.cancel();
  b.time.run();
  CHECK(first.state() == task_state::cancelled);
  CHECK(second.state() == task_state::succeeded);
  CHECK(b.ms() == 0);
}

TEST_CASE("an operation may wait for another pool, which is no deadlock") {
  bench_top b;
  strand_pool here{b.io, {.concurrency = 1}}, there{b.io, {.concurrency = 1}};
  int ran = 0;
  auto outer = here.submit([&](task_context&) -> net::awaitable<void> {
    (void)there.try_post([&] { ++ran; });
    co_await there.run([&] { ++ran; });
    co_await there.wait_group(7);
  });
  (void)here.try_post([&] { (void)there.try_post([&] { ++ran; }); });
  b.time.run();
  CHECK(outer.state() == task_state::succeeded);
  CHECK(ran == 3);
}

TEST_CASE("results without a default constructor are waited for, and so is their absence") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  codes seen;
  b.spawn([&]() -> net::awaitable<void> {
    const task<number> t = pool.submit([] { return number{7}; });
    const number first = co_await t.result();
    CHECK(first.value == 7);
    const number again = co_await t.result();
    CHECK(again.value == 7);
    const number ran = co_await pool.run([] { return number{8}; });
    CHECK(ran.value == 8);
    task<number> late = pool.submit([] { return number{9}; }, {.delay = 1h});
    late.cancel();
    seen.push_back(co_await outcome_of(late.result()));
    pool.request_stop(stop_mode::drain);
    seen.push_back(co_await outcome_of(pool.run([] { return number{9}; })));
  });
  b.time.run();
  CHECK(seen == codes{net::error::operation_aborted, errc::stopped});
}

TEST_CASE("who begins to wait for a task while that ends is told, too") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::error_code how;
  task<void> t;
  t = pool.submit([w = last_words{[&] {
                     CHECK(t.state() == task_state::cancelled);
                     CHECK(pool.cancel_group(1) == 0);
                     t.async_wait([&](std::exception_ptr e) { how = code_of(e); });
                   }}] {},
                  {.delay = 1h, .group = 1});
  CHECK(t.cancel());
  b.time.run();
  CHECK(how == net::error::operation_aborted);
}

TEST_CASE("a pool answers when its context is gone") {
  auto b = std::make_unique<bench_top>();
  strand_pool pool{b->io, {.concurrency = 1}};
  auto t = pool.submit([](task_context&) { return sleep_for(1h); }, {.timeout = 1s, .name = "late"});
  (void)pool.try_post([] {});
  b->time.poll();
  b.reset();
  const pool_stats s = pool.stats();
  CHECK(s.submitted == 2);
  CHECK(s.queued + s.working == 0);
  CHECK(s.names.size() == 1);
  CHECK_FALSE(t.cancel());
  CHECK_FALSE(pool.try_post([] {}));
  adds_up(s);
}

TEST_CASE("no wait for a pool goes on once its context is gone, also where it is awaited on another one") {
  net::io_context elsewhere;
  auto b = std::make_unique<bench_top>();
  strand_pool pool{b->io, {.concurrency = 1}};
  std::vector<task<void>> tasks;
  for (int i = 0; i < 2; ++i) {  // one that works, and one that is queued
    tasks.push_back(pool.submit([](task_context&) { return sleep_for(1h); }, {.group = static_cast<unsigned>(i) + 1}));
  }
  const auto held = std::make_shared<int>();
  int went_on = 0;
  const auto wait = [](std::shared_ptr<int>, auto end, int& n) -> net::awaitable<void> {
    co_await std::move(end);
    ++n;
  };
  net::co_spawn(elsewhere, wait(held, pool.closed(), went_on), net::detached);
  for (const std::uint64_t group : {1u, 2u}) {
    net::co_spawn(elsewhere, wait(held, pool.wait_group(group), went_on), net::detached);
    net::co_spawn(elsewhere, wait(held, tasks[group - 1].result(), went_on), net::detached);
  }
  b->time.poll();
  elsewhere.poll();
  CHECK(held.use_count() == 6);
  b.reset();
  elsewhere.restart();
  elsewhere.poll();  // destroys the frames
  CHECK(went_on == 0);
  CHECK(held.use_count() == 1);
}

TEST_CASE("a task that stands for none is copied as such") {
  const task<int> none;
  const task<int> copy = none;
  CHECK_FALSE(copy.valid());
}

TEST_CASE("what an operation has left on its strand holds up no worker") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  codes left, unrelated;
  std::function<void()> resume;
  const bool begins_later = GENERATE(true, false);
  const auto slow = pool.submit([&](task_context&) { return until(resume); });  // keeps one worker
  // On the other, a coroutine that goes on after its operation, and waits for the slow one.
  (void)pool.try_post([&](task_context& c) -> net::awaitable<void> {
    net::co_spawn(
        c.executor(),
        [&]() -> net::awaitable<void> {
          if (begins_later) co_await sleep_for(2ms);
          left.push_back(co_await outcome_of(slow.result()));
          left.push_back(co_await outcome_of(pool.run([] {})));
        },
        net::detached);
    co_await sleep_for(1ms);
  });
  b.time.run_for(3ms);
  CHECK(left.empty());
  // Now one that has nothing to do with it.
  const auto nested = [&](task_context&) -> net::awaitable<void> {
    co_await sleep_for(2ms);
    unrelated.push_back(co_await outcome_of(slow.result()));
  };
  (void)pool.try_post(nested);
  b.time.run_for(10ms);
  CHECK(unrelated.empty());
  resume();
  b.time.run();
  CHECK(left == codes(2));
  CHECK(unrelated == codes(1));
}

TEST_CASE("what an operation has left on its strand may wait while the next one works there") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  codes left;
  (void)pool.try_post([&](task_context& c) -> net::awaitable<void> {
    net::co_spawn(
        c.executor(),
        [&]() -> net::awaitable<void> {
          co_await sleep_for(5ms);
          left.push_back(co_await outcome_of(pool.run([] {})));
          left.push_back(co_await outcome_of(pool.wait_group(7)));
        },
        net::detached);
    co_return;
  });
  (void)pool.try_post([](task_context&) { return sleep_for(10ms); }, {.group = 7});
  (void)pool.try_post([](task_context&) { return sleep_for(10ms); }, {.group = 7});
  b.time.run();
  CHECK(left == codes(2));
}

TEST_CASE("what an operation has left on its own executor is not taken for the next one's") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  codes left;
  const auto waits = [&]() -> net::awaitable<void> {
    co_await sleep_for(5ms);
    left.push_back(co_await outcome_of(pool.run([] {})));
    left.push_back(co_await outcome_of(pool.wait_group(7)));
    // What it begins is no more inside than it is.
    const auto executor = co_await net::this_coro::executor;
    const auto child = [&] { return pool.run([] {}); };
    left.push_back(co_await outcome_of(net::co_spawn(executor, child, net::use_awaitable)));
  };
  const bool on_a_strand = GENERATE(false, true);
  (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
    const net::any_io_executor executor = co_await net::this_coro::executor;
    if (on_a_strand) {
      net::co_spawn(net::make_strand(executor), waits, net::detached);
    } else {
      net::co_spawn(executor, waits, net::detached);
    }
  });
  for (int i = 0; i < 4; ++i) (void)pool.try_post([](task_context&) { return sleep_for(10ms); }, {.group = 7});
  b.time.run();
  CHECK(left == codes(3));
}

TEST_CASE("what an operation has left is not taken for its next attempt") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  codes left;
  int attempts = 0;
  const auto waits = [&]() -> net::awaitable<void> {
    co_await sleep_for(5ms);
    left.push_back(co_await outcome_of(pool.run([] {})));
  };
  const auto again = [&](task_context&) -> net::awaitable<void> {
    if (++attempts == 2) {
      co_await sleep_for(10ms);
      co_return;
    }
    net::co_spawn(co_await net::this_coro::executor, waits, net::detached);
    throw std::runtime_error{"again"};
  };
  (void)pool.try_post(again, {.retry = {.attempts = 2}});
  b.time.run();
  CHECK(attempts == 2);
  CHECK(left == codes(1));
}

TEST_CASE("what an operation has left on its strand may outlive the pool, and wait in another one") {
  bench_top b;
  auto pool = std::make_unique<strand_pool>(b.io, strand_pool_options{.concurrency = 1});
  std::optional<strand_pool> other;
  codes left;
  (void)pool->try_post([&](task_context& c) -> net::awaitable<void> {
    net::co_spawn(
        c.executor(),
        [&]() -> net::awaitable<void> {
          co_await sleep_for(5ms);
          left.push_back(co_await outcome_of(other->run([] {})));
        },
        net::detached);
    co_return;
  });
  b.time.run_for(1ms);
  pool.reset();
  b.time.run_for(1ms);
  other.emplace(b.io, strand_pool_options{.concurrency = 1});
  b.time.run();
  CHECK(left == codes(1));
}

TEST_CASE("children of an operation on its strand wait inside it") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  codes ends;
  (void)pool.try_post([&](task_context& c) -> net::awaitable<void> {
    ends.push_back(co_await outcome_of(with_timeout(pool.run([] {}), 1h)));
    ends.push_back(
        co_await outcome_of(net::co_spawn(c.executor(), [&] { return pool.run([] {}); }, net::use_awaitable)));
    task_group group{c.executor()};
    group.spawn(pool.run([] {}));
    ends.push_back(co_await outcome_of(group.join()));
    const auto own = co_await net::this_coro::executor;
    const auto child = [&] { return pool.run([] {}); };
    ends.push_back(co_await outcome_of(net::co_spawn(own, child, net::use_awaitable)));
    ends.push_back(co_await outcome_of(net::co_spawn(net::make_strand(own), child, net::use_awaitable)));
  });
  b.time.run();
  CHECK(ends == codes(5, would_deadlock));
}

TEST_CASE("an operation that waits for its own group, or for itself, is refused to") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 4}};
  codes ends;
  std::optional<task<void>> own;
  own = pool.submit(
      [&](task_context&) -> net::awaitable<void> {
        ends.push_back(co_await outcome_of(pool.wait_group(7)));
        ends.push_back(co_await outcome_of(with_timeout(pool.wait_group(7), 1h)));
        ends.push_back(co_await outcome_of(own->result()));
        ends.push_back(co_await outcome_of(pool.wait_group(8)));
      },
      {.group = 7});
  (void)pool.try_post([](task_context&) { return sleep_for(1ms); }, {.group = 8});
  b.time.run();
  CHECK(ends == codes{would_deadlock, would_deadlock, would_deadlock, {}});
  CHECK(own->state() == task_state::succeeded);
  CHECK(b.ms() == 1);
}
