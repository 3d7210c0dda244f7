// A process of its own, as it replaces the heap: no allocation per short operation, and the k-th allocation
// fails.

#include "canigo/strand_pool.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

using namespace allocations;

namespace {

/// Allocations by the second half of `rounds` turns, each of which calls `step` so many times.
template <class Step>
std::int64_t allocated_in_steady_state(net::io_context& io, int rounds, Step step) {
  std::int64_t before = 0;
  struct turn {
    net::io_context& io;
    Step& step;
    std::int64_t& before;
    int left, half;
    void operator()() {
      if (left == half) before = made;
      for (int i = 0; i < 32; ++i) step();
      if (--left > 0) net::post(io, std::ref(*this));
    }
  } t{io, step, before, rounds, rounds / 2};
  net::post(io, std::ref(t));
  io.restart();
  io.run();
  return made - before;
}

}  // namespace

TEST_CASE("in steady state short operations allocate nothing") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  strand_pool pool{io, {.concurrency = 3, .priorities = 2}};
  int ran = 0;
  CHECK(allocated_in_steady_state(io, 200, [&] { (void)pool.try_post([&ran] { ++ran; }, {.priority = 1}); }) == 0);
  CHECK(allocated_in_steady_state(io, 200, [&] { (void)pool.submit([&ran] { return ++ran; }); }) == 0);
  CHECK(allocated_in_steady_state(
            io, 200, [&] { (void)pool.try_post([&ran] { ++ran; }, {.timeout = 1s, .name = "named"}); }) == 0);
  CHECK(ran == 3 * 200 * 32);
}

TEST_CASE("in steady state an awaited short operation allocates nothing") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  strand_pool pool{io, {.concurrency = 3}};
  std::int64_t during = 1;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        std::int64_t before = 0;
        for (int i = 0; i < 1000; ++i) {
          if (i == 500) before = made;
          co_await pool.run([] { return 1; });
        }
        during = made - before;
      },
      net::detached);
  io.run();
  CHECK(during == 0);
}

namespace {

std::string figures(const pool_stats& s) {
  std::string text;
  for (const auto n :
       {s.submitted, s.succeeded, s.failed, s.cancelled, s.timed_out, s.stopped, std::uint64_t{s.working},
        std::uint64_t{s.sleeping}, std::uint64_t{s.queued}, std::uint64_t{s.delayed}, std::uint64_t{s.held_back}}) {
    text += std::to_string(n) + ' ';
  }
  return text;
}

/// All that a pool does, on one io_context; counts how often anybody was told anything.
struct scenario {
  int asked = 0, told = 0;

  // Fails the k-th allocation from the pool on, as Asio 1.22 does not survive a failure inside the making of a strand.
  // Returns whether it was reached.
  bool run(int kind, std::int64_t k = -1) {
    net::io_context io{1};
    testing::virtual_time time{io};
    std::optional<failing> f;
    {
      strand_pool pool{io,
                       {.concurrency = 2,
                        .priorities = 2,
                        .queue_limit = 4,
                        .on_overflow = kind == 1 ? overflow::wait : overflow::reject_new}};
      time.poll();
      f.emplace(k, allocations::unaligned);
      const auto tell = [this](auto&&...) { ++told; };
      const auto slow = [](task_context&) -> net::awaitable<int> {
        co_await sleep_for(10ms);
        co_return 1;
      };
      for (int i = 0; i < 6; ++i) {
        switch ((kind + i) % 6) {
          case 0:
            pool.async_run([] { return 1; }, {}, tell);
            break;
          case 1:
            pool.async_run(slow, {.timeout = 5ms}, tell);
            break;
          case 2:
            pool.async_run(slow, {.priority = 1, .name = "slow"}, tell);
            break;
          case 3:
            pool.async_run([]() -> int { throw 1; }, {.retry = {.attempts = 2, .backoff = backoff::constant(1ms)}},
                           tell);
            break;
          case 4:
            pool.async_run([] { return std::string(100, 'x'); }, {.delay = 3ms, .group = 3}, tell);
            break;
          default:
            pool.async_run(slow, {.group = 3}, tell);
            break;
        }
        ++asked;
      }
      if (kind % 2 == 0) {
        time.run_for(4ms);
        pool.cancel_group(3);
      }
      if (kind >= 3) pool.request_stop(static_cast<stop_mode>(kind - 2), 2ms);
      time.run();
      const pool_stats s = pool.stats();
      if (s.submitted != s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped)
        throw std::logic_error{"does not add up: " + figures(s)};
      if (s.working + s.queued + s.delayed + s.held_back != 0) throw std::logic_error{"not at rest: " + figures(s)};
    }
    time.run();
    return f->stop();
  }
};

}  // namespace

TEST_CASE("whichever allocation fails, nobody waits for ever and nothing leaks") {
  {
    scenario{}.run(0);
  }
  for (int kind = 0; kind < 6; ++kind) {
    std::int64_t k = 0;
    for (bool failed = true; failed; ++k) {
      const std::int64_t before = live;
      bool threw = false;
      failed = true;
      {
        scenario s;
        try {
          failed = s.run(kind, k);
        } catch (const std::bad_alloc&) {
          threw = true;
        } catch (const std::logic_error& e) {
          FAIL("kind " << kind << ", allocation " << k << ": " << e.what());
        }
        if (!threw && s.told != s.asked)
          FAIL("kind " << kind << ", allocation " << k << ": " << s.told << " of " << s.asked << " were told");
      }
      // Caches of threads may have grown by what was freed.
      if (live > before + 70) FAIL("kind " << kind << ", allocation " << k << " leaks " << live - before);
      REQUIRE(k < 100'000);
    }
    CHECK(k > 10);
  }
}

TEST_CASE("cancelled or stopped at every step, in every way, each is told exactly once") {
  for (int kind = 0; kind < 6; ++kind) {
    for (int mode = 0; mode < 4; ++mode) {
      for (int step = 0;; ++step) {
        net::io_context io{1};
        testing::virtual_time time{io};
        int asked = 0, told = 0;
        bool finished = false;
        {
          strand_pool pool{io, {.concurrency = 1, .queue_limit = 2, .on_overflow = overflow::wait}};
          std::vector<std::unique_ptr<net::cancellation_signal>> signals;
          for (int i = 0; i < 5; ++i) {
            signals.push_back(std::make_unique<net::cancellation_signal>());
            const task_options o{.timeout = kind == 1 ? std::optional<duration>{3ms} : std::nullopt,
                                 .delay = kind == 2 ? duration{2ms} : duration{},
                                 .retry = {.attempts = kind == 3 ? 2u : 1u, .backoff = backoff::constant(1ms)}};
            net::co_spawn(io,
                          pool.run(
                              [kind](task_context&) -> net::awaitable<void> {
                                if (kind == 4) co_return;
                                co_await sleep_for(1ms);
                                co_await sleep_for(kind == 1 ? 5ms : 1ms);
                                if (kind == 3) throw 1;
                              },
                              o),
                          net::bind_cancellation_slot(signals.back()->slot(), [&](std::exception_ptr) { ++told; }));
            ++asked;
          }
          for (int i = 0; i < step && !finished; ++i) {
            io.restart();
            if (io.poll_one() == 0) {
              const time_point now = time.now();
              time.run_for(1ms);
              finished = told == asked || time.now() == now;
            }
          }
          if (mode == 0) {
            for (auto& s : signals) s->emit(net::cancellation_type::terminal);
          } else {
            pool.request_stop(static_cast<stop_mode>(mode));
          }
          time.run();
          REQUIRE(told == asked);
          const pool_stats s = pool.stats();
          REQUIRE(s.submitted == s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped);
        }
        if (finished) break;
      }
    }
  }
}
