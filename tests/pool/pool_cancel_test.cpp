// Cancellation and stop at every step: each call that waits on a pool is cancelled in each state that it can be found
// in, with every type of cancellation, and the pool stopped there in every mode.

#include "canigo/resource_pool.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/use_awaitable.hpp>

#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <utility>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

namespace {

/// Stops nothing.
constexpr auto no_stop = stop_mode{};
constexpr auto no_type = net::cancellation_type::none;
const std::initializer_list<net::cancellation_type> every_type{
    net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total};
const std::initializer_list<stop_mode> all_modes{stop_mode::drain, stop_mode::finish_running, stop_mode::cancel_all};

net::awaitable<void> sleeper(task_context&) {
  co_await sleep_for(1ms);
  co_await sleep_for(1ms);
}

/// One call on a pool, cancelled and its pool stopped after so many steps of the loop. True if the call had ended by
/// then, so that there is nothing more to try.
template <class Pool, class Call>
bool disturb(Pool make_pool, Call call, int steps, net::cancellation_type type, stop_mode mode) {
  bench_top b;
  auto pool = make_pool(b.io);
  net::cancellation_signal signal;
  int told = 0;
  std::error_code outcome;
  net::co_spawn(
      b.io,
      [&]() -> net::awaitable<void> {
        co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
        co_await call(pool);
      },
      net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
        ++told;
        outcome = code_of(e);
      }));
  bool ended = false;
  for (int i = 0; i < steps && !ended; ++i) {
    b.io.restart();
    if (b.io.poll_one() == 0) {
      const time_point before = b.time.now();
      b.time.run_for(500us);
      ended = told > 0 || b.time.now() == before;
    }
  }
  const bool in_time = told == 0;
  if (type != no_type) signal.emit(type);
  if (mode != no_stop) pool->request_stop(mode);
  b.time.run();
  CHECK(told == 1);
  if (in_time && mode == no_stop && outcome) {
    CHECK(outcome == net::error::operation_aborted);
  }
  const pool_stats s = pool->stats();
  adds_up(s);
  CHECK(s.working + s.queued + s.delayed + s.held_back + s.repairing == 0);
  CHECK(pool->is_closed() == (mode != no_stop || s.sleeping == 0));
  if (!pool->is_closed()) {  // it is as good as new
    bool works = false;
    (void)pool->try_post([&works](auto&&...) { works = true; });
    b.time.run();
    CHECK(works);
  }
  return ended;
}

template <class Pool, class Call>
void disturb_everywhere(Pool make_pool, Call call) {
  const auto everywhere = [&](net::cancellation_type type, stop_mode mode) {
    for (int steps = 0;; ++steps) {
      CAPTURE(steps, static_cast<int>(type), static_cast<int>(mode));
      if (disturb(make_pool, call, steps, type, mode)) return;
      REQUIRE(steps < 10'000);
    }
  };
  for (const auto type : every_type) everywhere(type, no_stop);
  for (const auto mode : all_modes) {
    everywhere(no_type, mode);
    for (const auto type : every_type) everywhere(type, mode);
  }
}

using pool_ptr = std::unique_ptr<strand_pool>;

/// One worker that is busy at first, room for one in its queue.
pool_ptr busy_pool(net::io_context& io) {
  auto pool = std::make_unique<strand_pool>(
      io, strand_pool_options{.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait});
  (void)pool->try_post(sleeper, {.group = 1});
  return pool;
}

pool_ptr full_pool(net::io_context& io) {
  auto pool = busy_pool(io);
  (void)pool->try_post(sleeper, {.group = 1});
  return pool;
}

}  // namespace

TEST_CASE("run is cancelled at every step: held back, queued, running", "[torture]") {
  disturb_everywhere(full_pool, [](pool_ptr& p) -> net::awaitable<void> {
    co_await p->run(sleeper);
    co_await p->run([] {});
  });
}

TEST_CASE("run with a delay, a timeout and retries is cancelled at every step", "[torture]") {
  disturb_everywhere(busy_pool, [](pool_ptr& p) -> net::awaitable<void> {
    const auto fails_once = [](task_context& t) -> net::awaitable<int> {
      co_await sleep_for(t.attempt() == 1 ? 1h : duration{1ms});
      co_return 1;
    };
    co_await p->run(fails_once, {.timeout = 2ms,
                                 .delay = 1ms,
                                 .group = 1,
                                 .name = "late",
                                 .retry = {.attempts = 2, .backoff = backoff::constant(1ms)}});
  });
}

TEST_CASE("async_run is cancelled at every step", "[torture]") {
  disturb_everywhere(full_pool, [](pool_ptr& p) -> net::awaitable<void> {
    co_await p->async_run(sleeper, {.timeout = 1h}, net::use_awaitable);
  });
}

TEST_CASE("waiting for a task is cancelled at every step, and the task goes on", "[torture]") {
  disturb_everywhere(busy_pool, [](pool_ptr& p) -> net::awaitable<void> {
    const task<void> t = p->submit(sleeper);
    co_await t.result();
    CHECK(t.state() == task_state::succeeded);
  });
}

TEST_CASE("waiting for a group is cancelled at every step", "[torture]") {
  disturb_everywhere(full_pool, [](pool_ptr& p) -> net::awaitable<void> { co_await p->wait_group(1); });
}

TEST_CASE("waiting for a stop is cancelled at every step, and the stop goes on", "[torture]") {
  for (const auto mode : all_modes) {
    for (const auto type : every_type) {
      for (int steps = 0;; ++steps) {
        bench_top b;
        auto pool = full_pool(b.io);
        net::cancellation_signal signal;
        int told = 0;
        bool called = false;
        net::co_spawn(
            b.io,
            [&]() -> net::awaitable<void> {
              co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
              called = true;
              adds_up(co_await pool->stop(mode, 1ms));
            },
            net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr) { ++told; }));
        for (int i = 0; i < steps && told == 0; ++i) {
          b.io.restart();
          if (b.io.poll_one() == 0) b.time.run_for(500us);
        }
        const bool ended = told > 0;
        signal.emit(type);
        b.time.run();
        REQUIRE(told == 1);
        CHECK(pool->is_closed() == called);
        adds_up(pool->stats());
        if (ended) break;
      }
    }
  }
}

TEST_CASE("a task group inside an operation is cancelled with it, at every step", "[torture]") {
  disturb_everywhere(busy_pool, [](pool_ptr& p) -> net::awaitable<void> {
    const auto family = [](task_context& t) -> net::awaitable<void> {
      task_group group{t.executor()};
      group.spawn(sleep_for(1ms));
      group.spawn(sleep_for(2ms));
      try {
        co_await group.join();
      } catch (...) {
        CHECK(group.running() == 0);
        throw;
      }
    };
    co_await p->run(family);
  });
}

TEST_CASE("an operation on a resource is cancelled at every step: of making, checking, resetting and using it",
          "[torture]") {
  static int alive;
  using resources = std::unique_ptr<resource_pool<thing>>;
  alive = 0;
  const auto make_pool = [](net::io_context& io) {
    auto pool = std::make_unique<resource_pool<thing>>(
        io, resource_pool_options<thing>{.concurrency = 1,
                                         .restart = {.limit = 100, .backoff = backoff::constant(1ms)},
                                         .make = []() -> net::awaitable<thing> {
                                           co_await sleep_for(1ms);
                                           co_return thing{alive};
                                         },
                                         .reset = [](thing&) { return sleep_for(1ms); },
                                         .check = [](thing&) -> net::awaitable<bool> {
                                           co_await sleep_for(1ms);
                                           co_return true;
                                         },
                                         .destroy = [](thing&) { return sleep_for(1ms); },
                                         .idle_timeout = 10ms});
    (void)pool->try_post([](thing&) { throw std::runtime_error{"reset it"}; });
    return pool;
  };
  disturb_everywhere(make_pool, [](resources& p) -> net::awaitable<void> {
    const auto use = [](thing&, task_context&) -> net::awaitable<void> { co_await sleep_for(1ms); };
    const auto breaks = [](thing&, task_context&) -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw fatal_error{"broken"};
    };
    co_await p->run(use);
    try {
      co_await p->run(breaks);
    } catch (const fatal_error&) {
    }
    co_await p->run(use);
  });
  CHECK(alive == 0);
}
