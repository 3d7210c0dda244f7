// Pools of workers: operations of every kind, held back, evicted, tried again, stopped.

#include "canigo/algorithms/backoff.hpp"
#include "canigo/pool.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task.hpp"

#include "stage.hpp"

#include <optional>
#include <string>

namespace torture {

using namespace canigo;
using namespace std::chrono_literals;

namespace {

net::awaitable<int> slow(task_context&) {
  co_await sleep_for(2ms);
  co_await sleep_for(2ms);
  co_return 1;
}

net::awaitable<int> throws_late(task_context&) {
  co_await sleep_for(1ms);
  throw thrown{};
}

/// A pool on its stage, with its workers asleep.
struct with_pool {
  with_pool(stage& s, const strand_pool_options& o) : t{s}, pool{std::in_place, t.io(), o} {
    t.spare_aligned();
    t.can_stop([this](stop_mode mode) {
      if (pool) pool->request_stop(mode, 1ms);
    });
    t.settle();
  }
  template <class F>
  auto ask(F f, task_options o = {}) {
    return [this, f, o] { pool->async_run(f, o, t.handler()); };
  }
  void expect_sound() {
    t.expect_all_ended();
    if (pool) t.expect_at_rest(pool->stats());
  }
  stage& t;
  std::optional<strand_pool> pool;
};

void short_operations(stage& t) {
  with_pool p{t, {.concurrency = 2, .priorities = 2}};
  t.play(
      p.ask([] { return 1; }), p.ask([] {}, {.priority = 1}), p.ask([] { return std::string(100, 'x'); }),
      [&] { (void)p.pool->try_post([] {}); }, [&] { t.pass(10ms); });
  p.expect_sound();
}

void short_operations_throw(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  const auto throws = []() -> int { throw thrown{}; };
  t.play(
      p.ask(throws), p.ask(throws, {.retry = {.attempts = 3, .backoff = backoff::constant(1ms)}}),
      [&] { (void)p.pool->try_post(throws); }, [&] { t.pass(10ms); });
  p.expect_sound();
}

void long_operations(stage& t) {
  with_pool p{t, {.concurrency = 2, .priorities = 2}};
  t.play(
      p.ask(slow), p.ask(slow, {.priority = 1}), p.ask(throws_late), [&] { t.pass(3ms); }, p.ask(slow),
      [&] { t.pass(100ms); });
  p.expect_sound();
}

void operations_held_back(stage& t) {
  with_pool p{t, {.concurrency = 1, .priorities = 2, .queue_limit = 1, .on_overflow = overflow::wait}};
  t.play(p.ask(slow), p.ask(slow, {.priority = 1}), p.ask([] {}), p.ask(slow, {.delay = 1ms}), [&] { t.pass(100ms); });
  p.expect_sound();
}

template <overflow Policy>
void a_full_queue_of_a_pool(stage& t) {
  with_pool p{t, {.concurrency = 1, .priorities = 2, .queue_limit = 1, .on_overflow = Policy}};
  t.play(p.ask(slow), p.ask(slow, {.priority = 1}), p.ask(slow), p.ask([] {}, {.priority = 1}), [&] { t.pass(100ms); });
  p.expect_sound();
}

void late_and_tried_again(stage& t) {
  with_pool p{t, {.concurrency = 2}};
  const auto fails_once = [](task_context& c) -> net::awaitable<int> {
    co_await sleep_for(c.attempt() == 1 ? 1h : duration{1ms});
    co_return 1;
  };
  t.play(p.ask(fails_once, {.timeout = 2ms,
                            .delay = 1ms,
                            .group = 1,
                            .name = "late",
                            .retry = {.attempts = 2, .backoff = backoff::constant(1ms)}}),
         p.ask(slow, {.timeout = 1ms}), p.ask(slow, {.deadline = time_point{3ms}}), [&] { t.pass(100ms); });
  p.expect_sound();
}

void operations_that_heed_nothing(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  const auto stubborn = [](task_context&) -> net::awaitable<void> {
    co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
    co_await net::this_coro::throw_if_cancelled(false);
    co_await sleep_for(5ms);
  };
  t.play(p.ask(stubborn, {.timeout = 1ms}), p.ask(slow), [&] { t.pass(100ms); });
  p.expect_sound();
}

void a_group_of_operations(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  t.spawn([&p] { return p.pool->wait_group(3); });
  t.play(
      p.ask(slow, {.group = 3}), p.ask(slow, {.group = 3}), p.ask([] {}, {.delay = 2ms, .group = 3}),
      [&] { t.pass(3ms); }, [&] { p.pool->cancel_group(3); }, p.ask(slow, {.group = 3}), [&] { t.pass(100ms); });
  p.expect_sound();
}

void tasks_that_are_waited_for(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  t.spawn([&p]() -> net::awaitable<void> {
    const task<int> work = p.pool->submit(slow);
    co_await work.result();
  });
  t.spawn([&p]() -> net::awaitable<void> {
    task<int> work = p.pool->submit(slow, {.delay = 1ms});
    work.cancel();
    co_await work.result();
  });
  t.play([&] { t.pass(3ms); }, [&] { (void)p.pool->submit([] {}); }, [&] { t.pass(100ms); });
  p.expect_sound();
}

void a_handler_that_stops_waiting(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  std::optional<task<int>> work;
  t.play([&] { work = p.pool->submit(slow); },
         [&] {
           if (work) work->async_wait(t.handler());
         },
         [&] { t.pass(1ms); }, [&] { t.cancel(0, net::cancellation_type::total); }, [&] { t.pass(100ms); });
  p.expect_sound();
}

void coroutines_that_run(stage& t) {
  with_pool p{t, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
  for (int i = 0; i < 3; ++i) {
    t.spawn([&p]() -> net::awaitable<void> {
      co_await p.pool->run(slow);
      co_await p.pool->run([] {});
    });
  }
  t.play([&] { t.pass(100ms); });
  p.expect_sound();
}

void operations_that_wait_for_their_own_pool(stage& t) {
  with_pool p{t, {.concurrency = 2}};
  const auto nested = [&p](task_context&) -> net::awaitable<void> { co_await p.pool->run([] {}); };
  t.play(p.ask(nested), p.ask(nested), p.ask(nested), [&] { t.pass(100ms); });
  p.expect_sound();
}

void more_workers_and_fewer(stage& t) {
  t.spare_memory();
  with_pool p{t, {.concurrency = 3}};
  t.play(
      p.ask(slow), p.ask(slow), p.ask(slow), [&] { t.pass(1ms); }, [&] { p.pool->resize(1); }, p.ask(slow),
      [&] { t.pass(3ms); }, [&] { p.pool->resize(3); }, p.ask(slow), [&] { t.pass(100ms); });
  p.expect_sound();
}

template <stop_mode Mode>
void stopped_with_work_in_it(stage& t) {
  with_pool p{t, {.concurrency = 1, .queue_limit = 2, .on_overflow = overflow::wait}};
  t.spawn([&p]() -> net::awaitable<void> { (void)co_await p.pool->closed(); });
  t.play(
      p.ask(slow), p.ask(slow), p.ask([] {}, {.delay = 1ms}), p.ask(slow), [&] { t.pass(1ms); },
      [&] { p.pool->request_stop(Mode, 2ms); }, p.ask(slow), [&] { t.pass(100ms); });
  p.expect_sound();
  t.expect(p.pool->is_closed(), "it does not stop");
}

void destroyed_with_work_in_it(stage& t) {
  with_pool p{t, {.concurrency = 1}};
  t.play(
      p.ask(slow), p.ask(slow), p.ask([] {}, {.delay = 1ms}), [&] { t.pass(1ms); }, [&] { p.pool.reset(); },
      [&] { t.pass(100ms); });
  p.expect_sound();
}

void an_observer_looks_on(stage& t) {
  struct counter : pool_observer {
    void attempt_started(const task_event&) noexcept override { ++started; }
    void task_ended(const task_event&) noexcept override { ++ended; }
    int started = 0, ended = 0;
  };
  static counter counts;  // must outlive the last task, which goes with the context
  counts.started = counts.ended = 0;
  {
    with_pool p{t, {.concurrency = 1, .observer = &counts}};
    t.play(p.ask(slow, {.name = "slow"}), p.ask([] {}, {.name = "short"}), p.ask(throws_late), [&] { t.pass(100ms); });
    p.expect_sound();
  }
  t.expect(counts.ended == 3 || counts.started < 3, "an end was not told");
}

}  // namespace

std::vector<scenario> scenarios_of_pools() {
  return {
      {"short operations", short_operations},
      {"short operations throw", short_operations_throw},
      {"long operations", long_operations},
      {"operations held back", operations_held_back},
      {"a full queue of a pool that rejects", a_full_queue_of_a_pool<overflow::reject_new>},
      {"a full queue of a pool that evicts the oldest", a_full_queue_of_a_pool<overflow::evict_oldest>},
      {"a full queue of a pool that evicts the least important",
       a_full_queue_of_a_pool<overflow::evict_least_important>},
      {"late and tried again", late_and_tried_again},
      {"operations that heed nothing", operations_that_heed_nothing},
      {"a group of operations", a_group_of_operations},
      {"tasks that are waited for", tasks_that_are_waited_for},
      {"a handler that stops waiting", a_handler_that_stops_waiting},
      {"coroutines that run", coroutines_that_run},
      {"operations that wait for their own pool", operations_that_wait_for_their_own_pool},
      {"more workers and fewer", more_workers_and_fewer},
      {"a pool is drained", stopped_with_work_in_it<stop_mode::drain>},
      {"a pool finishes what runs", stopped_with_work_in_it<stop_mode::finish_running>},
      {"a pool cancels all", stopped_with_work_in_it<stop_mode::cancel_all>},
      {"a pool is destroyed with work in it", destroyed_with_work_in_it},
      {"an observer looks on", an_observer_looks_on},
  };
}

}  // namespace torture
