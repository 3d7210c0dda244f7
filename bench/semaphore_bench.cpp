// What a permit costs: free (B5), handed from one coroutine to the next (B6), and with two threads (B6b). Beside each,
// what bare Asio or the machine need for the least part of it.

#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"

#include "harness.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <thread>

namespace net = canigo::net;
using canigo::permit;
using canigo::semaphore;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;
constexpr int contenders = 64;
constexpr std::int64_t rounds = 3'000;

// A token a nanosecond: the bucket is never empty.
const canigo::limiter_options plenty{
    .rates = {{canigo::rate{1, std::chrono::nanoseconds{1}}, 1'000'000'000, 1'000'000'000}}, .concurrency = 8};

net::awaitable<void> child() { co_return; }

/// Two steps of a lock-free count: the least that taking and giving back can be.
void take_and_give(std::atomic<std::int64_t>& count) {
  std::int64_t seen = count.load(std::memory_order_relaxed);
  while (!count.compare_exchange_weak(seen, seen - 1)) {
  }
  count.fetch_add(1);
}

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

void free_permits() {
  net::io_context io;
  semaphore s{io, {.permits = 8}};
  std::atomic<std::int64_t> count{8};

  bench::match{"B5", "acquire and release, free, awaited"}
      .add("semaphore.acquire",
           [] {
             return in_coroutine(many, []() -> net::awaitable<void> {
               semaphore mine{co_await net::this_coro::executor, {.permits = 8}};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .add("floor: two atomic steps, empty coroutine",
           [&] {
             return in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 co_await child();
                 take_and_give(count);
               }
             });
           })
      .add("limiter.acquire, a rate and a cap",
           [] {
             return in_coroutine(many, []() -> net::awaitable<void> {
               canigo::limiter mine{co_await net::this_coro::executor, plenty};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .run(repetitions);

  bench::match{"B5t", "try_acquire and release, free"}
      .add("semaphore.try_acquire",
           [&] {
             return bench::measure(many, [&] {
               for (auto i = many; i > 0; --i) s.try_acquire();
             });
           })
      .add("floor: two atomic steps",
           [&] {
             return bench::measure(many, [&] {
               for (auto i = many; i > 0; --i) take_and_give(count);
             });
           })
      .run(repetitions);

  bench::match{"B5u", "try_acquire and release by two threads"}
      .add("semaphore.try_acquire",
           [&] {
             return in_two_threads(many, [&] {
               for (auto i = many; i > 0; --i) s.try_acquire();
             });
           })
      .add("floor: two atomic steps",
           [&] {
             return in_two_threads(many, [&] {
               for (auto i = many; i > 0; --i) take_and_give(count);
             });
           })
      .run(repetitions);
}

/// All contenders take a permit in turn, and yield while they hold it.
bench::sample contended(std::uint64_t permits, int threads) {
  net::io_context io{threads};
  semaphore s{io, {.permits = permits}};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          for (auto i = rounds; i > 0; --i) {
            const permit p = co_await s.acquire();
            co_await net::post(net::use_awaitable);
          }
        },
        net::detached);
  }
  return bench::measure(contenders * rounds, [&] {
    std::thread other{[&] {
      if (threads > 1) io.run();
    }};
    io.run();
    other.join();
  });
}

/// `posts` in a row by as many coroutines as run at a time.
bench::sample posting(int coroutines, int posts, int threads) {
  net::io_context io{threads};
  const std::int64_t each = contenders * rounds / coroutines;
  for (int c = 0; c < coroutines; ++c) {
    net::co_spawn(
        io,
        [=]() -> net::awaitable<void> {
          const auto executor = co_await net::this_coro::executor;
          for (auto i = each * posts; i > 0; --i) co_await net::post(executor, net::use_awaitable);
        },
        net::detached);
  }
  return bench::measure(each * coroutines, [&] {
    std::thread other{[&] {
      if (threads > 1) io.run();
    }};
    io.run();
    other.join();
  });
}

void contended_permits() {
  bench::match{"B6", "semaphore(1), 64 coroutines, each yields while it holds"}
      .add("semaphore.acquire", [] { return contended(1, 1); })
      .add("bare Asio: the yield alone", [] { return posting(1, 1, 1); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting(1, 2, 1); })
      .run(repetitions);

  bench::match{"B6b", "semaphore(8), 64 coroutines, two threads on one io_context"}
      .add("semaphore.acquire", [] { return contended(8, 2); })
      .add("bare Asio: the yield alone, 8 coroutines", [] { return posting(8, 1, 2); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting(8, 2, 2); })
      .run(repetitions);
}

}  // namespace

int main() {
  // A lock is cheaper in a process of one thread; ours never are.
  std::atomic<bool> done{false};
  std::thread second{[&] { done.wait(false); }};
  free_permits();
  contended_permits();
  done = true;
  done.notify_one();
  second.join();
}
