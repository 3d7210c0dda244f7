// What resource pools, tasks, groups and task groups need of the heap: nothing in steady state, and no allocation whose
// failure loses a caller, a worker or a resource. Replaces the heap, so it is a program of its own.

#include "canigo/flow.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace allocations;
using pool_run::adds_up;
using pool_run::bench_top;
using pool_run::thing;

namespace {

/// What the second half of a thousand rounds of `step`, a coroutine, allocates.
template <class Step>
std::int64_t allocated_in_steady_state(net::io_context& io, Step step) {
  std::int64_t during = -1;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        for (int i = 0; i < 500; ++i) co_await step();
        const counted c;
        for (int i = 0; i < 500; ++i) co_await step();
        during = c.so_far();
      },
      net::detached);
  io.restart();
  io.run();
  return during;
}

}  // namespace

TEST_CASE("in steady state tasks with results, groups, timeouts and retries allocate nothing") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  strand_pool pool{io, {.concurrency = 2}};
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> { co_await pool.run([] { return 1; }); }) == 0);
  CHECK(allocated_in_steady_state(
            io, [&]() -> net::awaitable<void> { co_await pool.run([] {}, {.timeout = 1s, .name = "timed"}); }) == 0);
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> {
          const task<int> t = pool.submit([] { return 1; });
          co_await t.result();
        }) == 0);
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> {
          (void)pool.try_post([](task_context&) -> net::awaitable<void> { co_return; }, {.timeout = 1s});
          co_await pool.run([] {});
        }) == 0);
  int tries = 0;
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> {
          (void)pool.try_post([&tries](task_context& t) { tries += t.attempt() == 1 ? 1 : 0; },
                              {.retry = {.attempts = 3}});
          co_await pool.run([] {});
        }) == 0);
  CHECK(tries == 1000);
  flow gold{pool, {.weight = 3, .rates = {{rate::per_second(1'000'000'000), 1000, 1000}}}};
  flow capped{pool, {.concurrency = 1, .times_waits = true}};
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> {
          (void)pool.try_post([] {}, {.flow = &gold});
          (void)pool.try_post([] {}, {.flow = &capped});
          (void)pool.try_post([] {});
          co_await pool.run([] {}, {.flow = &capped});
        }) == 0);
}

TEST_CASE("flows that come and go in a pool allocate nothing, also those whose task outlives them") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  strand_pool pool{io, {.concurrency = 2}};
  CHECK(allocated_in_steady_state(io, [&]() -> net::awaitable<void> {
          std::optional<flow> gone{std::in_place, pool};
          const flow stays{pool, {.weight = 2}};
          const auto drop_flow = [&gone] { gone.reset(); };
          co_await pool.run(drop_flow, {.flow = &*gone});
          co_await pool.run([] {}, {.flow = &stays});
        }) == 0);
}

TEST_CASE("in steady state an operation on a resource allocates nothing") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  resource_pool<int> pool{io, {.concurrency = 2, .make = [] { return 5; }}};
  int sum = 0;
  CHECK(allocated_in_steady_state(
            io, [&]() -> net::awaitable<void> { sum += co_await pool.run([](int& n) { return n; }); }) == 0);
  CHECK(sum == 5000);
}

TEST_CASE("a task that was told before its operation ended leaves nothing behind") {
  const auto play = [](bool is_named) {
    bench_top b;
    strand_pool pool{b.io, {.concurrency = 1}};
    auto t = pool.submit([](task_context&) { return pool_run::stubborn(300ms); },
                         {.timeout = 50ms, .name = is_named ? "stuck" : ""});
    b.time.run();
    CHECK(t.state() == task_state::timed_out);
    CHECK(pool.stats().working == 0);
  };
  for (const bool is_named : {false, true}) {
    play(is_named);  // what is made once
    const std::int64_t before = live;
    play(is_named);
    CHECK(live == before);
  }
}

TEST_CASE("no allocation whose failure loses a worker, a resource or a caller") {
  for (const bool stops : {false, true}) {
    const auto tried = for_every_allocation([&](std::int64_t k) {
      int alive = 0, asked = 0, told = 0;
      bool has_failed = false;
      {
        bench_top b;
        auto pool = std::make_unique<resource_pool<thing>>(
            b.io, resource_pool_options<thing>{.concurrency = 2,
                                               .queue_limit = 4,
                                               .restart = {.limit = 1000, .backoff = backoff::constant(1ms)},
                                               .make = [&alive]() -> net::awaitable<thing> {
                                                 co_await sleep_for(1ms);
                                                 co_return thing{alive};
                                               },
                                               .reset = [](thing&) { return sleep_for(1ms); },
                                               .check = [](thing&) -> net::awaitable<bool> {
                                                 co_await sleep_for(1ms);
                                                 co_return true;
                                               },
                                               .destroy = [](thing&) { return sleep_for(1ms); },
                                               .idle_timeout = 20ms});
        b.time.poll();
        const auto tell = [&told](auto&&...) { ++told; };
        {
          failing f{k, victims::unaligned};
          for (int i = 0; i < 6; ++i) {
            attempt([&] {
              if (i % 3 == 0) {
                pool->async_run([](thing&) { return std::string(100, 'x'); }, {}, tell);
              } else if (i % 3 == 1) {
                pool->async_run(
                    [](thing&, task_context&) -> net::awaitable<void> {
                      co_await sleep_for(2ms);
                      throw std::runtime_error{"reset it"};
                    },
                    {.timeout = 1h}, tell);
              } else {
                pool->async_run(
                    [](thing&, task_context&) -> net::awaitable<int> {
                      co_await sleep_for(2ms);
                      throw fatal_error{"broken"};
                      co_return 1;
                    },
                    {}, tell);
              }
              ++asked;
            });
            attempt([&] { b.time.run_for(1ms); });
          }
          if (stops) pool->request_stop(stop_mode::finish_running, 1ms);
          attempt([&] { b.time.run_for(100ms); });
          has_failed = f.stop();
        }
        b.time.run();
        CAPTURE(k, stops);
        CHECK(told == asked);
        const pool_stats s = pool->stats();
        adds_up(s);
        CHECK(s.working + s.queued + s.delayed + s.held_back + s.repairing == 0);
        CHECK(pool->is_closed() == stops);
        if (!stops) {  // both workers are there, and work
          int ran = 0;
          for (int i = 0; i < 4; ++i)
            (void)pool->try_post([&ran](thing&, task_context&) -> net::awaitable<void> {
              co_await sleep_for(10ms);
              ++ran;
            });
          b.time.run();
          CHECK(ran == 4);
          CHECK(pool->stats().sleeping == 2);
        }
        pool.reset();
        b.time.run();
      }
      CHECK(alive == 0);
      return has_failed;
    });
    CHECK(tried > 10);
  }
}

TEST_CASE("no allocation whose failure loses who waits for a task, a group or the end of a pool") {
  const auto tried = for_every_allocation([](std::int64_t k) {
    bench_top b;
    auto pool = std::make_unique<strand_pool>(b.io, strand_pool_options{.concurrency = 1});
    b.time.poll();
    int started = 0, ended = 0;
    struct at_end {
      int& n;
      ~at_end() { ++n; }
    };
    const auto visitor = [&](int kind) -> net::awaitable<void> {
      ++started;
      const at_end e{ended};  // also where Asio has no memory for the exception, and destroys the coroutine instead
      try {
        const auto slow = [](task_context&) -> net::awaitable<std::string> {
          co_await sleep_for(1ms);
          co_return std::string(100, 'x');
        };
        if (kind == 0) {
          const task<std::string> t = pool->submit(slow, {.group = 1});
          co_await t.result();
        } else if (kind == 1) {
          co_await pool->wait_group(1);
        } else if (kind == 2) {
          co_await pool->run(slow, {.timeout = 1h, .delay = 1ms});
        } else {
          co_await pool->closed();
        }
      } catch (const std::exception&) {
      }
    };
    bool has_failed = false;
    {
      failing f{k, victims::unaligned};
      for (int i = 0; i < 4; ++i) attempt([&] { net::co_spawn(b.io, visitor(i), net::detached); });
      attempt([&] { b.time.run_for(10ms); });
      pool->request_stop(stop_mode::drain);
      attempt([&] { b.time.run_for(10ms); });
      has_failed = f.stop();
    }
    b.time.run();
    CAPTURE(k);
    CHECK(ended == started);
    CHECK(pool->is_closed());
    adds_up(pool->stats());
    return has_failed;
  });
  CHECK(tried > 3);
}

TEST_CASE("no allocation whose failure leaves a task group waiting") {
  const auto tried = for_every_allocation([](std::int64_t k) {
    bench_top b;
    // On a strand, as Asio 1.22 does not survive a failure inside the making of one.
    auto group = std::make_unique<task_group>(net::make_strand(b.io));
    int begun = 0, ended = 0;
    bool started = false, joined = false, has_failed = false;
    struct at_end {
      int& n;
      ~at_end() { ++n; }
    };
    const auto child = [&](int i) -> net::awaitable<void> {
      ++begun;
      const at_end e{ended};
      co_await sleep_for(1ms * i);
      if (i == 2) throw std::runtime_error{"no"};
      co_await sleep_for(10ms);
    };
    {
      failing f{k, victims::unaligned};
      for (int i = 1; i < 4; ++i) attempt([&] { group->spawn(child(i)); });
      attempt([&] {
        net::co_spawn(
            b.io,
            [&]() -> net::awaitable<void> {
              started = true;
              struct note {
                bool& b;
                ~note() { b = true; }
              } n{joined};
              try {
                co_await group->join();
              } catch (const std::exception&) {
              }
            },
            net::detached);
      });
      attempt([&] { b.time.run_for(50ms); });
      has_failed = f.stop();
    }
    b.time.run();
    CAPTURE(k);
    CHECK(begun == ended);
    CHECK(started == joined);
    CHECK(group->running() == 0);
    return has_failed;
  });
  CHECK(tried > 3);
}

TEST_CASE("making a pool fails as a whole, for want of memory") {
  bench_top b;
  constexpr int rounds = 300;
  const auto fail_to_make = [&b] {
    for (int round = 0; round < rounds; ++round) {
      {
        const failing f{0, victims::aligned};  // of the coroutine of its first worker
        CHECK_THROWS_AS(strand_pool(b.io, {.concurrency = 3}), std::bad_alloc);
      }
      b.time.run();
    }
  };
  fail_to_make();  // fills the caches of freed blocks
  const std::int64_t before = live;
  fail_to_make();
  // Asio keeps a freed block if its address suits the next use, so a cache may still gain a few. A leak is one a round.
  CHECK(live - before < rounds);
}

TEST_CASE("workers that a resize has no memory for come when there is some") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  pool.resize(1);
  b.time.run();
  CHECK(pool.stats().sleeping == 1);
  {
    const failing f{0, victims::aligned};
    CHECK_THROWS_AS(pool.resize(3), std::bad_alloc);
  }
  for (int i = 0; i < 2; ++i) {  // nor when they are to be made up for
    failing f{0, victims::aligned};
    b.time.run_for(1ms);
    CHECK(f.stop());
  }
  CHECK(pool.stats().sleeping == 1);
  b.time.run();
  CHECK(pool.stats().sleeping == 3);
  CHECK(b.ms() == 3);
}

namespace {

struct no_default {
  explicit no_default(int n) : value{n} {}
  int value;
};

/// What somebody waits for who has a cancellation slot; each by the number of one.
net::awaitable<void> wait(strand_pool& pool, const task<void>& later, int what) {
  if (what == 0) co_await sleep_for(1h);
  if (what == 1) co_await pool.run([] {});
  if (what == 2) co_await pool.run([] { return no_default{1}; });
  if (what == 3) co_await later.result();
  if (what == 4) co_await pool.wait_group(7);
  if (what == 5) co_await pool.wait_group(8);  // in which nobody is
  if (what == 6) (void)co_await pool.closed();
}

}  // namespace

TEST_CASE("a wait that there is no memory to make cancellable ends with not_enough_memory, and at once") {
  const int what = GENERATE(range(0, 7));
  // An executor that posts to the pool without allocating; or one that does not, where no strand comes into it.
  const bool on_its_own = GENERATE(true, false);
  if (!on_its_own && what != 5) return;
  int refused = 0;
  const auto tried = for_every_allocation([&](std::int64_t k) {
    bool has_failed = false;
    // A thread that has done nothing yet has no freed memory to use again.
    std::thread{[&] {
      bench_top b;
      const net::any_io_executor own = b.io.get_executor();
      const net::any_io_executor wraps{net::require(b.io.get_executor(), net::execution::outstanding_work.tracked)};
      strand_pool pool{on_its_own ? own : wraps, {.concurrency = 1}};
      const task<void> later = pool.submit([] {}, {.delay = 1h, .group = 7});
      b.time.poll();
      net::cancellation_signal signal;
      std::optional<failing> f;
      bool has_ended = false;
      std::exception_ptr error;
      const auto main = [&]() -> net::awaitable<void> {
        f.emplace(k, victims::aligned);
        co_await wait(pool, later, what);
      };
      net::co_spawn(on_its_own ? own : wraps, main,
                    net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
                      has_ended = true;
                      error = e;
                    }));
      while (!f) {
        b.io.restart();
        b.io.poll_one();
      }
      has_failed = f->stop();
      f.reset();
      b.time.run_for(10ms);
      if (error && code_of(error) == errc::not_enough_memory) {
        ++refused;
        CHECK(has_ended);
        CHECK(b.ms() == 10);
      }
      pool.request_stop(stop_mode::cancel_all);
      b.time.run();
      CHECK(has_ended);
      CHECK(pool.is_closed());
    }}.join();
    return has_failed;
  });
  CHECK(tried > 0);
  CAPTURE(what, on_its_own);
  CHECK(refused == 1);
}

TEST_CASE("no allocation whose failure loses a handler that waits for a task") {
  int refused = 0;
  const auto tried = for_every_allocation([&](std::int64_t k) {
    bench_top b;
    strand_pool pool{b.io, {.concurrency = 1}};
    const task<int> number = pool.submit([] { return 7; });
    const task<void> nothing = pool.submit([] {});
    net::cancellation_signal first, second;
    int told = 0;
    bool has_failed = false;
    const auto note = [&](const std::exception_ptr& e) {
      ++told;
      if (e) {
        CHECK(code_of(e) == errc::not_enough_memory);
        ++refused;
      }
    };
    const auto note_number = [&](const std::exception_ptr& e, int n) {
      note(e);
      CHECK(n == (e ? 0 : 7));
    };
    {
      failing f{k, victims::aligned};
      number.async_wait(net::bind_cancellation_slot(first.slot(), note_number));
      nothing.async_wait(net::bind_cancellation_slot(second.slot(), [&](std::exception_ptr e) { note(e); }));
      has_failed = f.stop();
    }
    b.time.run();
    CHECK(told == 2);
    return has_failed;
  });
  CHECK(tried == 4);
  CHECK(refused == 4);
}

TEST_CASE("no allocation whose failure loses an operation of a pool on a strand") {
  const auto tried = for_every_allocation([&](std::int64_t k) {
    bool has_failed = false;
    std::thread{[&] {
      bench_top b;
      strand_pool pool{net::make_strand(b.io), {.concurrency = 2}};
      b.time.poll();
      int asked = 0, told = 0, cancelled = 0;
      const auto tell = [&told](auto&&...) { ++told; };
      task<void> endless;
      {
        failing f{k, victims::unaligned};
        attempt([&] {
          pool.async_run([] { return 1; }, {}, tell);
          ++asked;
        });
        attempt([&] {
          pool.async_run([](task_context&) { return sleep_for(1ms); }, {}, tell);
          ++asked;
        });
        attempt([&] { endless = pool.submit([](task_context&) { return sleep_for(1h); }); });
        attempt([&] { b.time.run_for(5ms); });
        if (endless.valid()) cancelled += endless.cancel() ? 1 : 0;
        attempt([&] { b.time.run_for(5ms); });
        has_failed = f.stop();
      }
      b.time.run();
      CHECK(told == asked);
      CHECK((cancelled == 1) == endless.valid());
      if (endless.valid()) CHECK(has_ended(endless.state()));
      CHECK(b.ms() < 100);
    }}.join();
    return has_failed;
  });
  CHECK(tried > 5);
}

TEST_CASE("what a pool has no memory to post goes with its context") {
  constexpr int many = 20;  // for all of which there are no blocks at hand
  const auto tried = for_every_allocation([&](std::int64_t k) {
    bool has_failed = false;
    std::thread{[&] {
      auto b = std::make_unique<bench_top>();
      strand_pool pool{net::make_strand(b->io), {.concurrency = 2 * many}};
      const auto alive = std::make_shared<int>();
      std::vector<task<void>> running, queued(many);
      for (int i = 0; i < many; ++i) running.push_back(pool.submit([alive](task_context&) { return sleep_for(1h); }));
      b->time.poll();
      {
        failing f{k, victims::unaligned, 1000};
        for (auto& t : queued) attempt([&] { t = pool.submit([alive] {}); });
        for (auto& t : running) t.cancel();
        has_failed = f.stop();
      }
      b.reset();
      for (const auto& t : running) CHECK(has_ended(t.state()));
      for (const auto& t : queued) CHECK((!t.valid() || t.state() == task_state::stopped));
      CHECK(alive.use_count() == 1);
      adds_up(pool.stats());
    }}.join();
    return has_failed;
  });
  CHECK(tried > many);
}
