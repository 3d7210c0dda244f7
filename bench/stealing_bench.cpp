// Measures work that moves between the threads of one io_context, with and without work_stealing: yields (X1), permits
// (X2), a pool that is fed from outside (X3), coroutines (X4) and a limiter (X5). It also checks that a single thread
// is not slower (X6).

#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/work_stealing.hpp"

#include "loops.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace net = canigo::net;

namespace {

constexpr int repetitions = 7;
constexpr int contenders = 64;
constexpr std::int64_t rounds = 3'000;

/// The plain executor of an io_context.
struct one_queue {
  explicit one_queue(net::io_context& i) noexcept : io{&i} {}
  auto get_executor() const noexcept { return io->get_executor(); }
  net::io_context* io;
};

net::awaitable<void> yields() {
  for (auto i = rounds; i > 0; --i) co_await net::post(net::use_awaitable);
}

template <class Limit>
net::awaitable<void> contends(Limit& limit) {
  for (auto i = rounds; i > 0; --i) {
    const canigo::permit held = co_await limit.acquire();
    co_await net::post(net::use_awaitable);
  }
}

net::awaitable<void> spawns() {
  for (auto i = rounds / 10; i > 0; --i) {
    co_await net::co_spawn(co_await net::this_coro::executor, bench::child(), net::use_awaitable);
  }
}

/// Measures 64 coroutines that `make` returns, on the threads of one io_context.
template <class Executor, class Make>
bench::sample by_coroutines(int threads, std::int64_t each, Make make) {
  net::io_context io{threads};
  const Executor ex{io};
  for (int c = 0; c < contenders; ++c) net::co_spawn(ex.get_executor(), make(), net::detached);
  return bench::run_by(threads, io, contenders * each);
}

template <class Executor, class Limit, class Options>
bench::sample by_permits(int threads, const Options& options) {
  net::io_context io{threads};
  const Executor ex{io};
  Limit limit{net::any_io_executor{ex.get_executor()}, options};
  for (int c = 0; c < contenders; ++c) net::co_spawn(ex.get_executor(), contends(limit), net::detached);
  return bench::run_by(threads, io, contenders * rounds);
}

/// Measures a thread that submits short operations one after the other. At most 1024 may wait.
template <class Executor>
bench::sample fed_from_outside() {
  constexpr std::int64_t many = 500'000;
  constexpr std::size_t most_waiting = 1024;
  net::io_context io{2};
  const Executor ex{io};
  canigo::strand_pool pool{net::any_io_executor{ex.get_executor()}, {.concurrency = 2, .queue_limit = most_waiting}};
  // On its own cache line, because the workers write it while the producer runs.
  alignas(128) std::atomic<std::int64_t> done{0};
  auto guard = net::make_work_guard(io);
  std::thread a{[&] { io.run(); }}, b{[&] { io.run(); }};
  const auto s = bench::measure(many, [&] {
    for (std::int64_t i = 0; i < many; ++i) {
      while (!pool.try_post([&done] { done.fetch_add(1, std::memory_order_relaxed); })) std::this_thread::yield();
    }
    while (done.load(std::memory_order_relaxed) < many) std::this_thread::yield();
  });
  guard.reset();
  a.join();
  b.join();
  return s;
}

}  // namespace

int main() {
  using canigo::limiter;
  using canigo::semaphore;
  using canigo::work_stealing;
  const bench::second_thread sleeps;
  const canigo::semaphore_options one{.permits = 1}, eight{.permits = 8};
  // A token per nanosecond: the bucket is never empty.
  const canigo::limiter_options rate_and_cap{
      .rates = {{canigo::rate{1, std::chrono::nanoseconds{1}}, 1'000'000'000, 1'000'000'000}}, .concurrency = 8};

  bench::match{"X1", "64 coroutines yield, two threads on one io_context"}
      .add("work_stealing", [] { return by_coroutines<work_stealing>(2, rounds, yields); })
      .add("bare Asio: io_context", [] { return by_coroutines<one_queue>(2, rounds, yields); })
      .run(repetitions);
  bench::match{"X2", "semaphore(8), 64 coroutines, two threads on one io_context"}
      .add("work_stealing", [&] { return by_permits<work_stealing, semaphore>(2, eight); })
      .add("bare Asio: io_context", [&] { return by_permits<one_queue, semaphore>(2, eight); })
      .run(repetitions);
  bench::match{"X3", "a short operation from another thread, two threads run the pool, 1024 wait at most"}
      .add("work_stealing", [] { return fed_from_outside<work_stealing>(); })
      .add("bare Asio: io_context", [] { return fed_from_outside<one_queue>(); })
      .run(repetitions);
  bench::match{"X4", "64 coroutines spawn one after the other and wait for it, two threads on one io_context"}
      .add("work_stealing", [] { return by_coroutines<work_stealing>(2, rounds / 10, spawns); })
      .add("bare Asio: io_context", [] { return by_coroutines<one_queue>(2, rounds / 10, spawns); })
      .run(repetitions);
  bench::match{"X5", "a limiter with a rate that is not reached and a cap of 8, two threads on one io_context"}
      .add("work_stealing", [&] { return by_permits<work_stealing, limiter>(2, rate_and_cap); })
      .add("bare Asio: io_context", [&] { return by_permits<one_queue, limiter>(2, rate_and_cap); })
      .run(repetitions);
  bench::match{"X6", "64 coroutines yield, one thread"}
      .add("work_stealing", [] { return by_coroutines<work_stealing>(1, rounds, yields); })
      .add("bare Asio: io_context", [] { return by_coroutines<one_queue>(1, rounds, yields); })
      .run(repetitions);
  bench::match{"X6s", "semaphore(1), 64 coroutines, one thread"}
      .add("work_stealing", [&] { return by_permits<work_stealing, semaphore>(1, one); })
      .add("bare Asio: io_context", [&] { return by_permits<one_queue, semaphore>(1, one); })
      .run(repetitions);
}
