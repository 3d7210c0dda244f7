// What a token costs: granted at once (B1, B2), by two threads (B3), waited for in a queue, and at what rate tokens can
// be handed out (B4). Beside each, what bare Asio or the machine need for the least part of it.

#include "canigo/scheduler.hpp"

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/core.h>

#include <atomic>
#include <memory>
#include <thread>

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::rate;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;

// A token a nanosecond: the bucket is never empty, so every acquire is granted at once.
const canigo::scheduler_options plenty{.rate = rate{1, 1ns}, .burst = 1'000'000'000, .initial_tokens = 1'000'000'000};

void take_slot(std::atomic<std::int64_t>& slot) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t seen = slot.load(std::memory_order_relaxed);
  while (!slot.compare_exchange_weak(seen, now)) {
  }
}

net::awaitable<void> child() { co_return; }

template <class Main>
bench::sample in_coroutine(std::int64_t operations, Main main) {
  net::io_context io{1};
  net::co_spawn(io, main, net::detached);
  return bench::measure(operations, [&] { io.run(); });
}

template <class Work>
bench::sample in_two_threads(std::int64_t each, Work work) {
  return bench::measure(2 * each, [&] {
    std::thread other{work};
    work();
    other.join();
  });
}

void granted_at_once() {
  net::io_context io;
  canigo::scheduler scheduler{io, plenty};
  std::atomic<std::int64_t> slot{0};

  bench::match{"B1", "try_acquire, granted"}
      .add("scheduler.try_acquire",
           [&] {
             return bench::measure(many, [&] {
               for (auto i = many; i > 0; --i) scheduler.try_acquire();
             });
           })
      .add("floor: steady_clock and a compare-exchange",
           [&] {
             return bench::measure(many, [&] {
               for (auto i = many; i > 0; --i) take_slot(slot);
             });
           })
      .run(repetitions);

  bench::match{"B2", "co_await acquire, granted"}
      .add("scheduler.acquire",
           [] {
             return in_coroutine(many, []() -> net::awaitable<void> {
               canigo::scheduler s{co_await net::this_coro::executor, plenty};
               for (auto i = many; i > 0; --i) co_await s.acquire();
             });
           })
      .add("floor: clock, compare-exchange, empty coroutine",
           [&] {
             return in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 take_slot(slot);
                 co_await child();
               }
             });
           })
      .add("bare Asio: post(use_awaitable)",
           [] {
             return in_coroutine(many, []() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               for (auto i = many; i > 0; --i) co_await net::post(executor, net::use_awaitable);
             });
           })
      .run(repetitions);

  bench::match{"B3", "try_acquire by two threads, granted"}
      .add("scheduler.try_acquire",
           [&] {
             return in_two_threads(many, [&] {
               for (auto i = many; i > 0; --i) scheduler.try_acquire();
             });
           })
      .add("floor: steady_clock and a compare-exchange",
           [&] {
             return in_two_threads(many, [&] {
               for (auto i = many; i > 0; --i) take_slot(slot);
             });
           })
      .run(repetitions);
}

void queued() {
  constexpr std::int64_t rounds = 4'000;
  constexpr int coroutines = 64;
  const auto pass = [](net::io_context& io, auto each) {
    for (int c = 0; c < coroutines; ++c) net::co_spawn(io, each, net::detached);
    return bench::measure(coroutines * rounds, [&] { io.run(); });
  };

  bench::match{"Q1", "64 coroutines queue, a refund lets all of them go: the way through queue and loop"}
      .add("scheduler.acquire",
           [&] {
             net::io_context io{1};
             canigo::scheduler s{io, {.rate = rate{1, 24h}, .burst = coroutines}};
             int waiting = 0;
             return pass(io, [&]() -> net::awaitable<void> {
               for (auto i = rounds; i > 0; --i) {
                 if (++waiting == coroutines) {
                   waiting = 0;
                   net::post(io, [&] { s.refund(coroutines); });
                 }
                 co_await s.acquire();
               }
             });
           })
      .add("bare Asio: post(use_awaitable)",
           [&] {
             net::io_context io{1};
             return pass(io, [&]() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               for (auto i = rounds; i > 0; --i) co_await net::post(executor, net::use_awaitable);
             });
           })
      .run(repetitions);
}

struct reached {
  double share;
  double cpu;
};

template <class Start>
reached saturate(std::int64_t per_second, Start start) {
  net::io_context io{1};
  std::int64_t granted = 0;
  [[maybe_unused]] const auto keep = start(io, granted);
  const auto cpu = bench::cpu_time();
  const auto begin = std::chrono::steady_clock::now();
  io.run_for(1s);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double> busy = bench::cpu_time() - cpu;
  return {static_cast<double>(granted) / (static_cast<double>(per_second) * spent.count()),
          busy.count() / spent.count()};
}

void saturated() {
  fmt::print("B4 64 coroutines at a rate, for a second: what is reached, and the CPU it takes\n");
  for (const std::int64_t per_second : {10'000, 100'000, 1'000'000}) {
    const auto ours = saturate(per_second, [&](net::io_context& io, std::int64_t& granted) {
      // A hundredth of a second of burst: what a late wake-up can catch up with.
      auto s = std::make_unique<canigo::scheduler>(
          io, canigo::scheduler_options{.rate = rate::per_second(per_second),
                                        .burst = static_cast<std::uint64_t>(per_second / 100)});
      for (int c = 0; c < 64; ++c) {
        net::co_spawn(
            io,
            [&granted, s = s.get()]() -> net::awaitable<void> {
              for (;; ++granted) co_await s->acquire();
            },
            net::detached);
      }
      return s;
    });
    const auto bare = saturate(per_second, [&](net::io_context& io, std::int64_t& granted) {
      net::co_spawn(
          io,
          [&granted, per_second]() -> net::awaitable<void> {
            net::steady_timer timer{co_await net::this_coro::executor};
            const auto begin = std::chrono::steady_clock::now();
            for (;; ++granted) {
              timer.expires_at(begin + std::chrono::nanoseconds{1'000'000'000 / per_second * (granted + 1)});
              co_await timer.async_wait(net::use_awaitable);
            }
          },
          net::detached);
      return 0;
    });
    fmt::print("  {:>9}/s  scheduler {:7.3f} % at {:5.1f} % CPU   bare steady_timer {:7.3f} % at {:5.1f} % CPU\n",
               per_second, 100 * ours.share, 100 * ours.cpu, 100 * bare.share, 100 * bare.cpu);
  }
}

}  // namespace

int main() {
  // A lock is cheaper in a process of one thread; ours never are.
  std::atomic<bool> done{false};
  std::thread second{[&] { done.wait(false); }};
  granted_at_once();
  queued();
  saturated();
  done = true;
  done.notify_one();
  second.join();
}
