#include "canigo/resource_pool.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"
#include "support/sanitized.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

constexpr int operations = is_sanitized ? 100'000 : 1'000'000;

struct threads {
  threads(net::io_context& io, int n) : guard{io.get_executor()} {
    for (int i = 0; i < n; ++i) running.emplace_back([&io] { io.run(); });
  }
  void join() {
    guard.reset();
    running.clear();
  }
  net::executor_work_guard<net::io_context::executor_type> guard;
  std::vector<std::jthread> running;
};

}  // namespace

TEST_CASE("eight threads post, run and cancel a million operations; none is lost, none runs beside too many",
          "[stress]") {
  net::io_context io;
  threads loop{io, 4};
  strand_pool pool{io, {.concurrency = 5, .priorities = 4, .queue_limit = 10'000'000}};
  std::atomic<int> inside{0}, peak{0}, ran{0};
  std::atomic<std::uint64_t> accepted{0}, cancelled{0}, refused{0};
  {
    std::vector<std::jthread> producers;
    for (int p = 0; p < 4; ++p) {
      producers.emplace_back([&, p] {
        std::minstd_rand random{static_cast<unsigned>(p + 1)};
        for (int i = 0; i < operations / 4; ++i) {
          const auto op = [&] {
            const int now = ++inside;
            int seen = peak.load(std::memory_order_relaxed);
            while (now > seen && !peak.compare_exchange_weak(seen, now)) {
            }
            ++ran;
            --inside;
          };
          const task_options o{.priority = static_cast<int>(random() % 4)};
          switch (random() % 16) {
            case 0: {
              auto t = pool.submit(op, o);
              if (t.cancel() && t.state() == task_state::cancelled) ++cancelled;
              break;
            }
            case 1:
              (void)pool.submit(op,
                                {.priority = o.priority, .timeout = 1h, .group = 1 + random() % 5, .name = "grouped"});
              break;
            case 2:
              (void)pool.try_post(
                  [op](task_context&) -> net::awaitable<void> {
                    op();
                    co_await sleep_for(0s);
                  },
                  o);
              break;
            case 3:
              net::co_spawn(io, pool.run(op, o), net::detached);
              break;
            default:
              refused += pool.try_post(op, o) ? 0 : 1;
              break;
          }
          ++accepted;
          if (i % 1000 == 0) {
            pool.resize(1 + random() % 5);
            (void)pool.stats();
          }
        }
      });
    }
  }
  auto report = net::co_spawn(
                    io,
                    [&]() -> net::awaitable<stop_report> {
                      for (std::uint64_t g = 1; g <= 5; ++g) co_await pool.wait_group(g);
                      // What run() submits comes in when its coroutine starts.
                      while (pool.stats().submitted < accepted) co_await sleep_for(1ms);
                      co_return co_await pool.stop(stop_mode::drain);
                    },
                    net::use_future)
                    .get();
  loop.join();
  CHECK(refused == 0);
  CHECK(report.submitted == accepted);
  CHECK(report.succeeded + report.cancelled == report.submitted);
  CHECK(static_cast<std::uint64_t>(ran) == report.succeeded);
  CHECK(peak <= 5);
}

TEST_CASE("eight threads, a million operations, and a stop at a random moment, in every mode", "[stress]") {
  std::minstd_rand seeds{11};
  constexpr int rounds = 8;
  constexpr int each = operations / rounds / 4;
  for (int round = 0; round < rounds; ++round) {
    net::io_context io;
    threads loop{io, 4};
    const auto stop_at = static_cast<std::int64_t>(seeds() % (each * 4));
    const auto mode = static_cast<stop_mode>(1 + round % 3);
    const duration grace = round % 2 == 0 ? duration{200us} : duration::max();
    std::atomic<std::int64_t> asked{0}, waits{0}, told{0}, entered{0}, inside{0}, peak{0};
    stop_report report, again;
    pool_stats last;
    {
      strand_pool pool{io,
                       {.concurrency = 5,
                        .priorities = 4,
                        .queue_limit = 500,
                        .on_overflow = round < 4 ? overflow::wait : overflow::evict_least_important}};
      struct presence {
        std::atomic<std::int64_t>&n, &peak;
        explicit presence(std::atomic<std::int64_t>& a, std::atomic<std::int64_t>& p) : n{a}, peak{p} {
          const auto now = ++n;
          auto seen = peak.load(std::memory_order_relaxed);
          while (now > seen && !peak.compare_exchange_weak(seen, now)) {
          }
        }
        ~presence() { --n; }
      };
      const auto brief = [&] {
        const presence here{inside, peak};
        ++entered;
      };
      const auto lasting = [&](task_context& t) -> net::awaitable<void> {
        const presence here{inside, peak};
        ++entered;
        co_await sleep_for(t.attempt() * 20us);
        if (t.attempt() == 1 && t.id() % 2 == 0) throw std::runtime_error{"try again"};
      };
      const auto tell = [&told](auto&&...) { ++told; };
      std::vector<std::vector<task<void>>> kept(4);
      std::vector<std::jthread> producers;
      for (std::size_t p = 0; p < 4; ++p) {
        const auto seed = static_cast<unsigned>(seeds());
        producers.emplace_back([&, p, seed] {
          std::minstd_rand random{seed};
          for (int i = 0; i < each; ++i) {
            if (asked++ == stop_at) pool.request_stop(mode, grace);
            const int priority = static_cast<int>(random() % 4);
            switch (random() % 32) {
              case 0:
                kept[p].push_back(pool.submit(lasting, {.priority = priority,
                                                        .timeout = random() % 4 == 0 ? duration{10us} : duration{1h},
                                                        .group = 1 + random() % 3,
                                                        .name = "lasting",
                                                        .retry = {.attempts = 2, .backoff = backoff::constant(5us)}}));
                break;
              case 1:
                kept[p].push_back(pool.submit(brief, {.priority = priority, .delay = 10us}));
                if (random() % 2 == 0) kept[p].back().cancel();
                break;
              case 2:
                ++waits;
                pool.async_run(
                    lasting, {.priority = priority, .deadline = time_source::of(io.get_executor()).now() + 1ms}, tell);
                break;
              case 3:
                ++waits;
                pool.async_run(brief, {.priority = priority}, tell);
                break;
              case 4:
                ++waits;
                net::co_spawn(io, pool.run(brief, {.priority = priority}), tell);
                break;
              case 5:
                if (random() % 64 == 0) pool.cancel_group(1 + random() % 3);
                if (random() % 64 == 0) pool.resize(1 + random() % 5);
                if (random() % 64 == 0) (void)pool.stats();
                break;
              default:
                (void)pool.try_post(brief, {.priority = priority});
            }
          }
        });
      }
      producers.clear();
      auto first = net::co_spawn(io, pool.stop(stop_mode::drain), net::use_future);
      auto second = net::co_spawn(io, pool.closed(), net::use_future);
      report = first.get();
      again = second.get();
      for (const auto& tasks : kept) {
        for (const auto& t : tasks) CHECK(has_ended(t.state()));
      }
      last = pool.stats();
    }
    loop.join();
    CAPTURE(round, stop_at);
    CHECK(told == waits);
    CHECK(inside == 0);
    CHECK(peak <= 5);
    CHECK(report.submitted == report.succeeded + report.failed + report.cancelled + report.timed_out + report.stopped);
    CHECK(again.submitted == report.submitted);
    CHECK(again.succeeded == report.succeeded);
    CHECK(again.stopped == report.stopped);
    CHECK(last.submitted == report.submitted);
    CHECK(last.working + last.queued + last.delayed + last.held_back == 0);
    CHECK(static_cast<std::uint64_t>(entered) >= report.succeeded);
  }
}

TEST_CASE("a stop at random, in every mode, ends every task exactly once") {
  std::minstd_rand random{7};
  for (int round = 0; round < 60; ++round) {
    net::io_context io;
    threads loop{io, 4};
    std::atomic<int> told{0};
    int asked = 0;
    {
      strand_pool pool{io, {.concurrency = 3, .priorities = 2, .queue_limit = 50, .on_overflow = overflow::wait}};
      const unsigned stop_at = static_cast<unsigned>(random() % 200);
      for (unsigned i = 0; i < 200; ++i) {
        ++asked;
        auto done = [&told](auto&&...) { ++told; };
        if (i % 3 == 0) {
          pool.async_run([] {}, {.priority = static_cast<int>(i % 2)}, done);
        } else {
          pool.async_run(
              [](task_context&) -> net::awaitable<int> {
                co_await sleep_for(100us);
                co_return 1;
              },
              {.timeout = i % 5 == 0 ? duration{50us} : duration{1h}}, done);
        }
        if (i == stop_at)
          pool.request_stop(static_cast<stop_mode>(1 + round % 3), round % 2 ? duration{100us} : duration::max());
      }
      const auto report = net::co_spawn(io, pool.stop(stop_mode::drain), net::use_future).get();
      CHECK(report.submitted ==
            report.succeeded + report.failed + report.cancelled + report.timed_out + report.stopped);
    }
    loop.join();
    CHECK(told == asked);
  }
}

TEST_CASE("pools are destroyed while eight threads use their context") {
  net::io_context io;
  threads loop{io, 8};
  for (int round = 0; round < 200; ++round) {
    auto pool = std::make_unique<strand_pool>(io, strand_pool_options{.concurrency = 4});
    task<int> kept;
    for (int i = 0; i < 20; ++i) {
      kept = pool->submit(
          [](task_context&) -> net::awaitable<int> {
            co_await sleep_for(1h);
            co_return 1;
          },
          {.timeout = i % 2 ? duration{10us} : duration{1h}, .delay = i % 3 ? duration{0} : duration{20us}});
      (void)pool->try_post([] {});
    }
    if (round % 2) std::this_thread::yield();
    pool.reset();
    CHECK_NOTHROW(kept.cancel());
  }
  loop.join();
}

TEST_CASE("the last reference to a pool goes while another thread destroys the context") {
  constexpr int rounds = is_sanitized ? 200 : 500;
  for (int round = 0; round < rounds; ++round) {
    auto io = std::make_unique<net::io_context>();
    auto pool = std::make_unique<strand_pool>(*io, strand_pool_options{.concurrency = 8});
    std::optional<task<void>> last{pool->submit([] {})};
    if (round % 2 == 0) io->poll();
    pool.reset();
    if (round % 3 == 0) io->poll();
    std::atomic<int> ready{0};
    const auto together = [&ready] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
    };
    std::jthread drops{[&] {
      together();
      last.reset();
    }};
    together();
    io.reset();
  }
}

TEST_CASE("workers with resources that break, on eight threads") {
  net::io_context io;
  threads loop{io, 8};
  std::atomic<int> alive{0};
  struct thing {
    explicit thing(std::atomic<int>& a) : count{&a} { ++a; }
    thing(thing&& other) noexcept : count{std::exchange(other.count, nullptr)} {}
    ~thing() {
      if (count != nullptr) --*count;
    }
    std::atomic<int>* count;
  };
  {
    resource_pool<thing> pool{io,
                              {.concurrency = 4,
                               .queue_limit = 100'000,
                               .restart = {.limit = 10'000, .backoff = backoff::constant(0s)},
                               .make = [&]() -> net::awaitable<thing> {
                                 co_await sleep_for(1us);
                                 co_return thing{alive};
                               }}};
    for (int i = 0; i < 2000; ++i) {
      (void)pool.try_post([i](thing&, task_context&) -> net::awaitable<void> {
        if (i % 7 == 0) throw fatal_error{"broken"};
        co_return;
      });
    }
    const auto report = net::co_spawn(io, pool.stop(), net::use_future).get();
    CHECK(report.succeeded + report.failed == 2000);
    CHECK(alive == 0);
  }
  loop.join();
}
