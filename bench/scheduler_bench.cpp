// Measures a scheduler's token: granted at once (B1, B2), by two threads (B3), after a wait in a queue (Q1) and in
// flows (B16), the rate of grants (B4), with slack (B20), with a million waiters (B12), and how the cost grows with
// waiters, classes and schedulers (S1 to S3). For comparison, it measures the simplest solution with bare Asio or the
// machine.

#include "canigo/flow.hpp"
#include "canigo/scheduler.hpp"

#include "loops.hpp"

#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

namespace net = canigo::net;
using namespace std::chrono_literals;
using canigo::rate;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;

// A token per nanosecond: the bucket is never empty, so every acquire is granted at once.
const canigo::scheduler_options plenty{.rate = rate{1, 1ns}, .burst = 1'000'000'000, .initial_tokens = 1'000'000'000};

void take_slot(std::atomic<std::int64_t>& slot) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
  std::int64_t seen = slot.load(std::memory_order_relaxed);
  while (!slot.compare_exchange_weak(seen, now)) {
  }
}

void granted_at_once() {
  net::io_context io;
  canigo::scheduler scheduler{io, plenty};
  std::atomic<std::int64_t> slot{0};

  bench::match{"B1", "try_acquire, granted"}
      .add("scheduler.try_acquire", [&] { return bench::repeated(many, [&] { (void)scheduler.try_acquire(); }); })
      .add("floor: steady_clock and a compare-exchange",
           [&] { return bench::repeated(many, [&] { take_slot(slot); }); })
      .run(repetitions);

  bench::match{"B2", "co_await acquire, granted"}
      .add("scheduler.acquire",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               canigo::scheduler s{co_await net::this_coro::executor, plenty};
               for (auto i = many; i > 0; --i) co_await s.acquire();
             });
           })
      .add("floor: clock, compare-exchange, empty coroutine",
           [&] {
             return bench::in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 take_slot(slot);
                 co_await bench::child();
               }
             });
           })
      .add("bare Asio: post(use_awaitable)",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               for (auto i = many; i > 0; --i) co_await net::post(executor, net::use_awaitable);
             });
           })
      .run(repetitions);

  bench::match{"B3", "try_acquire by two threads, granted"}
      .add("scheduler.try_acquire", [&] { return bench::by_two_threads(many, [&] { (void)scheduler.try_acquire(); }); })
      .add("floor: steady_clock and a compare-exchange",
           [&] { return bench::by_two_threads(many, [&] { take_slot(slot); }); })
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

/// Like Q1, with more coroutines, each of which uses one of the flows in turn; with 0 flows, none is used.
bench::sample through_flows(std::size_t flows, int coroutines, std::int64_t rounds) {
  net::io_context io{1};
  canigo::scheduler s{io, {.rate = rate{1, 24h}, .burst = static_cast<std::uint64_t>(coroutines)}};
  std::deque<canigo::flow> all;
  for (std::size_t i = 0; i < flows; ++i)
    all.emplace_back(s, canigo::flow_options{.weight = static_cast<std::uint32_t>(1 + i % 7)});
  int waiting = 0;
  const auto ask = [&](const canigo::flow* mine) -> net::awaitable<void> {
    for (auto i = rounds; i > 0; --i) {
      if (++waiting == coroutines) {
        waiting = 0;
        net::post(io, [&] { s.refund(static_cast<std::uint64_t>(coroutines)); });
      }
      co_await s.acquire({.flow = mine});
    }
  };
  for (int c = 0; c < coroutines; ++c) {
    net::co_spawn(io, ask(flows == 0 ? nullptr : &all[static_cast<std::size_t>(c) % flows]), net::detached);
  }
  return bench::measure(coroutines * rounds, [&] { io.run(); });
}

void flows() {
  bench::match{"B16", "64 coroutines queue for shares, a refund lets all of them go: grants to flows"}
      .add("10 flows", [] { return through_flows(10, 64, 4'000); })
      .add("1 flow", [] { return through_flows(1, 64, 4'000); })
      .add("no flow", [] { return through_flows(0, 64, 4'000); })
      .run(repetitions);
  bench::match{"B16m", "10000 coroutines queue for shares, a refund lets all of them go: grants to flows"}
      .add("10000 flows", [] { return through_flows(10'000, 10'000, 40); })
      .add("1000 flows", [] { return through_flows(1'000, 10'000, 40); })
      .add("1 flow", [] { return through_flows(1, 10'000, 40); })
      .add("no flow", [] { return through_flows(0, 10'000, 40); })
      .run(repetitions);
}

/// Counts the grants of one second. `start` causes as many grants as possible.
template <class Start>
bench::sample saturate(std::int64_t per_second, Start start) {
  net::io_context io{1};
  std::int64_t granted = 0;
  [[maybe_unused]] const auto keep = start(io, granted);
  const auto allocated = bench::allocations();
  const auto cpu = bench::cpu_time();
  const auto begin = std::chrono::steady_clock::now();
  io.run_for(1s);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  const std::chrono::duration<double> busy = bench::cpu_time() - cpu;
  const auto n = static_cast<double>(granted);
  return {.ns_per_operation = spent.count() * 1e9 / n,
          .allocations_per_operation = static_cast<double>(bench::allocations() - allocated) / n,
          .share_of_rate = n / (static_cast<double>(per_second) * spent.count()),
          .cpu = busy.count() / spent.count()};
}

bench::sample saturated_by_64(std::int64_t per_second, canigo::duration slack = 0ms) {
  return saturate(per_second, [&](net::io_context& io, std::int64_t& granted) {
    // The burst is a hundredth of a second, which is what a late wake-up can catch up with.
    auto s = std::make_unique<canigo::scheduler>(
        io, canigo::scheduler_options{.rate = rate::per_second(per_second),
                                      .burst = static_cast<std::uint64_t>(per_second / 100),
                                      .slack = slack});
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
}

bench::sample saturated_timer(std::int64_t per_second) {
  return saturate(per_second, [&](net::io_context& io, std::int64_t& granted) {
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
}

void saturated() {
  for (const std::int64_t per_second : {10'000, 100'000, 1'000'000}) {
    bench::match{fmt::format("B4-{}", per_second), fmt::format("64 coroutines at {} a second", per_second)}
        .add("scheduler.acquire", [=] { return saturated_by_64(per_second); })
        .add("bare Asio: a steady_timer", [=] { return saturated_timer(per_second); })
        .without_warm_up()
        .run(1);
  }
  for (const std::int64_t per_second : {10'000, 100'000}) {
    bench::match{fmt::format("B20-{}", per_second), fmt::format("the same with a slack, at {} a second", per_second)}
        .add("scheduler.acquire, a slack of 1 ms", [=] { return saturated_by_64(per_second, 1ms); })
        .without_warm_up()
        .run(1);
  }
}

/// Queues waiters with callbacks in all classes in turn, and then grants one after the other.
bench::sample queue_and_wake(int waiters, int classes, bool wake) {
  net::io_context io{1};
  canigo::scheduler s{io,
                      {.rate = rate{1, 24h},
                       .burst = static_cast<std::uint64_t>(waiters),
                       .priorities = classes,
                       .queue_limit = static_cast<std::size_t>(waiters)}};
  std::int64_t granted = 0;
  const auto before = bench::bytes_in_use();
  bench::sample r = bench::measure(waiters, [&] {
    for (int i = 0; i < waiters; ++i) {
      s.async_acquire({.priority = i % classes}, [&](std::error_code) { ++granted; });
    }
  });
  r.bytes_per_operation = static_cast<double>(bench::bytes_in_use() - before) / waiters;
  if (!wake) return r;
  const double bytes = r.bytes_per_operation;
  r = bench::measure(waiters, [&] {
    s.refund(static_cast<std::uint64_t>(waiters));
    io.run();
  });
  r.bytes_per_operation = bytes;
  return r;
}

/// The simplest queue for many waiters: an object for each waiter, in a list for each class, and one post for all.
class bare_lists {
 public:
  explicit bare_lists(int classes) : lists_(static_cast<std::size_t>(classes)) {}
  void push(int of, std::function<void(std::error_code)> call) {
    list& l = lists_[static_cast<std::size_t>(of)];
    *l.end = new waiter{std::move(call)};
    l.end = &(*l.end)->next;
  }
  void wake() {
    for (list& l : lists_) {
      while (const std::unique_ptr<waiter> w{std::exchange(l.first, l.first != nullptr ? l.first->next : nullptr)}) {
        w->call({});
      }
      l.end = &l.first;
    }
  }

 private:
  struct waiter {
    std::function<void(std::error_code)> call;
    waiter* next = nullptr;
  };
  struct list {
    waiter* first = nullptr;
    waiter** end = &first;
  };
  std::vector<list> lists_;
};

bench::sample queue_and_wake_bare(int waiters, int classes, bool wake) {
  net::io_context io{1};
  bare_lists lists{classes};
  std::int64_t called = 0;
  const auto queue = bench::measure(waiters, [&] {
    for (int i = 0; i < waiters; ++i) lists.push(i % classes, [&](std::error_code) { ++called; });
  });
  const auto woken = bench::measure(waiters, [&] {
    net::post(io, [&] { lists.wake(); });
    io.run();
  });
  return wake ? woken : queue;
}

void many_waiters() {
  constexpr int million = 1'000'000;
  bench::match{"B12", "a million queued async_acquire in 1024 classes: to queue one"}
      .add("scheduler.async_acquire", [] { return queue_and_wake(million, 1024, false); })
      .add("bare: an object each in a list of its class", [] { return queue_and_wake_bare(million, 1024, false); })
      .without_warm_up()
      .run(repetitions);
  bench::match{"B12w", "a million queued async_acquire in 1024 classes: to wake one"}
      .add("scheduler.async_acquire", [] { return queue_and_wake(million, 1024, true); })
      .add("bare: an object each in a list of its class", [] { return queue_and_wake_bare(million, 1024, true); })
      .without_warm_up()
      .run(repetitions);

  for (const int waiters : {1'000, 10'000, 100'000, million}) {
    bench::match{fmt::format("S1-{}", waiters), fmt::format("{} waiters, 16 classes", waiters)}
        .add("queue", [=] { return queue_and_wake(waiters, 16, false); })
        .add("wake", [=] { return queue_and_wake(waiters, 16, true); })
        .run(repetitions);
  }
  for (const int classes : {1, 8, 64, 1'024}) {
    bench::match{fmt::format("S2-{}", classes), fmt::format("100000 waiters, {} classes", classes)}
        .add("queue", [=] { return queue_and_wake(100'000, classes, false); })
        .add("wake", [=] { return queue_and_wake(100'000, classes, true); })
        .run(repetitions);
  }
}

void many_schedulers() {
  for (const int count : {1, 10, 100, 1'000, 10'000}) {
    net::io_context io{1};
    std::deque<canigo::scheduler> all;
    const bench::match m = bench::match{fmt::format("S3-{}", count), fmt::format("{} schedulers in turn", count)}.add(
        "try_acquire, granted", [&] {
          return bench::measure(many, [&] {
            for (std::int64_t i = 0; i < many;) {
              for (auto s = all.begin(); s != all.end() && i < many; ++s, ++i) (void)s->try_acquire();
            }
          });
        });
    if (m.wanted()) {
      for (int i = 0; i < count; ++i) all.emplace_back(io, plenty);
    }
    m.run(repetitions);
  }
}

}  // namespace

int main() {
  const bench::second_thread sleeps;
  granted_at_once();
  queued();
  flows();
  saturated();
  many_waiters();
  many_schedulers();
}
