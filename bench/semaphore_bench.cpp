// Measures a permit: a free one (B5), one passed between coroutines (B6), on two threads (B6b), one from one of several
// alternatives (B26), and one of a sublimit (B30). For comparison, it measures the simplest solution with bare Asio or
// the machine.

#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"

#include "bare_semaphore.hpp"
#include "loops.hpp"

#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>

namespace net = canigo::net;
using canigo::permit;
using canigo::semaphore;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;
constexpr int contenders = 64;
constexpr std::int64_t rounds = 3'000;

// A token per nanosecond: the bucket is never empty.
const canigo::limiter_options plenty{
    .rates = {{canigo::rate{1, std::chrono::nanoseconds{1}}, 1'000'000'000, 1'000'000'000}}, .concurrency = 8};

/// Two steps of a lock-free counter, the minimum for a take and a release.
void take_and_give(std::atomic<std::int64_t>& count) {
  std::int64_t seen = count.load(std::memory_order_relaxed);
  while (!count.compare_exchange_weak(seen, seen - 1)) {
  }
  count.fetch_add(1);
}

void free_permits() {
  net::io_context io;
  semaphore s{io, {.permits = 8}};
  std::atomic<std::int64_t> count{8};

  bench::match{"B5", "acquire and release, free, awaited"}
      .add("semaphore.acquire",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               semaphore mine{executor, {.permits = 8}};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .add("semaphore.try_acquire, or else acquire",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               semaphore mine{executor, {.permits = 8}};
               for (auto i = many; i > 0; --i) {
                 auto p = mine.try_acquire();
                 if (!p) p = co_await mine.acquire();
               }
             });
           })
      .add("floor: two atomic steps, empty coroutine",
           [&] {
             return bench::in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 co_await bench::child();
                 take_and_give(count);
               }
             });
           })
      .add("limiter.acquire, a rate and a cap",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               const auto executor = co_await net::this_coro::executor;
               canigo::limiter mine{executor, plenty};
               for (auto i = many; i > 0; --i) {
                 const permit p = co_await mine.acquire();
               }
             });
           })
      .run(repetitions);

  bench::match{"B5t", "try_acquire and release, free"}
      .add("semaphore.try_acquire", [&] { return bench::repeated(many, [&] { (void)s.try_acquire(); }); })
      .add("floor: two atomic steps", [&] { return bench::repeated(many, [&] { take_and_give(count); }); })
      .run(repetitions);

  bench::match{"B5u", "try_acquire and release by two threads"}
      .add("semaphore.try_acquire", [&] { return bench::by_two_threads(many, [&] { (void)s.try_acquire(); }); })
      .add("floor: two atomic steps", [&] { return bench::by_two_threads(many, [&] { take_and_give(count); }); })
      .run(repetitions);
}

// A half-full bucket that gets no tokens, so that each request must determine the alternative with the most tokens.
const canigo::rate_limit half{canigo::rate{1, std::chrono::hours{24}}, 1'000'000'000, 500'000'000};

/// Returns the options of a limiter with this number of alternatives. Their rates are never reached, and each has this
/// cap.
canigo::limiter_options any_of(int alternatives, std::uint64_t cap = 1'000,
                               const canigo::rate_limit& rate = plenty.rates.front()) {
  canigo::limiter_options o;
  for (int i = 0; i < alternatives; ++i) o.alternatives.push_back({.rates = {rate}, .concurrency = cap});
  return o;
}

/// Measures 64 coroutines that take the permits of a limiter in turn, and yield while they hold one.
bench::sample contended_alternatives(int alternatives, std::uint64_t cap) {
  net::io_context io{1};
  canigo::limiter l{io, any_of(alternatives, cap)};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          for (auto i = rounds; i > 0; --i) {
            const permit p = co_await l.acquire();
            co_await net::post(net::use_awaitable);
          }
        },
        net::detached);
  }
  return bench::run_by(1, io, contenders * rounds);
}

void alternatives() {
  const auto free = [](int many_of_them, const canigo::rate_limit& rate) {
    return [=] {
      return bench::in_coroutine(many, [=]() -> net::awaitable<void> {
        const auto executor = co_await net::this_coro::executor;
        canigo::limiter mine{executor, any_of(many_of_them, 1'000, rate)};
        for (auto i = many; i > 0; --i) {
          const permit p = co_await mine.acquire();
        }
      });
    };
  };
  bench::match{"B26", "limiter.acquire and release, free, from one of 8 alternatives"}
      .add("8 alternatives", free(8, plenty.rates.front()))
      .add("1 alternative", free(1, plenty.rates.front()))
      .run(repetitions);
  bench::match{"B26h", "the same, with half of each burst left"}
      .add("8 alternatives", free(8, half))
      .add("1 alternative", free(1, half))
      .run(repetitions);
  bench::match{"B26q", "a limiter with 8 permits, 64 coroutines, each yields while it holds one"}
      .add("8 alternatives with a cap of 1", [] { return contended_alternatives(8, 1); })
      .add("1 alternative with a cap of 8", [] { return contended_alternatives(1, 8); })
      .run(repetitions);
}

/// Returns options of a limiter with so many sublimits. Their rates are never reached, and each has this cap.
canigo::limiter_options each_of(int sublimits, std::uint64_t cap) {
  canigo::limiter_options o = plenty;
  o.concurrency = 1'000;
  for (int i = 0; i < sublimits; ++i) o.sublimits.push_back({.rates = plenty.rates, .concurrency = cap});
  return o;
}

/// Measures a free permit whose requests name the sublimits in turn; without sublimits they name none.
bench::sample free_of(int sublimits) {
  return bench::in_coroutine(many, [=]() -> net::awaitable<void> {
    const auto executor = co_await net::this_coro::executor;
    canigo::limiter mine{executor, each_of(sublimits, 8)};
    int next = 0;
    for (auto i = many; i > 0; --i) {
      const permit p = co_await mine.acquire({.sublimit = sublimits == 0 ? -1 : next});
      if (++next >= sublimits) next = 0;
    }
  });
}

/// Measures 64 coroutines that take the permits of the sublimits, and yield while they hold one.
bench::sample contended_sublimits(int sublimits, std::uint64_t cap) {
  net::io_context io{1};
  canigo::limiter l{io, each_of(sublimits, cap)};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&, mine = c % sublimits]() -> net::awaitable<void> {
          for (auto i = rounds; i > 0; --i) {
            const permit p = co_await l.acquire({.sublimit = mine});
            co_await net::post(net::use_awaitable);
          }
        },
        net::detached);
  }
  return bench::run_by(1, io, contenders * rounds);
}

void sublimits() {
  bench::match{"B30", "limiter.acquire and release, free, of one of 8 sublimits"}
      .add("8 sublimits", [] { return free_of(8); })
      .add("no sublimit", [] { return free_of(0); })
      .run(repetitions);
  bench::match{"B30q", "a limiter, 64 coroutines that yield while they hold a permit of a sublimit"}
      .add("8 sublimits with a cap of 1", [] { return contended_sublimits(8, 1); })
      .add("1 sublimit with a cap of 8", [] { return contended_sublimits(1, 8); })
      .run(repetitions);
}

using io_executor = net::io_context::executor_type;

/// Measures coroutines on this executor that take a permit in turn, and yield while they hold it.
template <class Executor, class Acquire>
bench::sample contended(std::uint64_t permits, int threads, Acquire acquire) {
  net::io_context io{threads};
  semaphore s{io, {.permits = permits}};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void, Executor> {
          for (auto i = rounds; i > 0; --i) {
            const permit p = co_await acquire(s);
            co_await net::post(net::use_awaitable_t<Executor>{});
          }
        },
        net::detached);
  }
  return bench::run_by(threads, io, contenders * rounds);
}

bench::sample contended_bare(std::uint64_t permits, int threads) {
  net::io_context io{threads};
  bench::bare_semaphore s{permits};
  for (int c = 0; c < contenders; ++c) {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          for (auto i = rounds; i > 0; --i) {
            co_await s.acquire();
            co_await net::post(net::use_awaitable);
            s.release();
          }
        },
        net::detached);
  }
  return bench::run_by(threads, io, contenders * rounds);
}

auto acquire(semaphore& s) { return s.acquire(); }
auto acquire_typed(semaphore& s) { return s.async_acquire({}, net::use_awaitable_t<io_executor>{}); }

/// Measures `posts` consecutive posts by each of several coroutines, some of which run at the same time.
template <class Executor>
bench::sample posting(int coroutines, int posts, int threads) {
  net::io_context io{threads};
  const std::int64_t each = contenders * rounds / coroutines;
  for (int c = 0; c < coroutines; ++c) {
    net::co_spawn(
        io,
        [=]() -> net::awaitable<void, Executor> {
          for (auto i = each * posts; i > 0; --i) co_await net::post(net::use_awaitable_t<Executor>{});
        },
        net::detached);
  }
  return bench::run_by(threads, io, each * coroutines);
}

void contended_permits() {
  using any = net::any_io_executor;
  bench::match{"B6", "semaphore(1), 64 coroutines, each yields while it holds"}
      .add("semaphore.acquire", [] { return contended<any>(1, 1, acquire); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<any>(1, 2, 1); })
      .add("bare Asio: the yield alone", [] { return posting<any>(1, 1, 1); })
      .add("bare: a list under the same lock, and a post", [] { return contended_bare(1, 1); })
      .run(repetitions);

  bench::match{"B6t", "the same in coroutines whose executor is io_context::executor_type"}
      .add("semaphore.async_acquire", [] { return contended<io_executor>(1, 1, acquire_typed); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<io_executor>(1, 2, 1); })
      .add("bare Asio: the yield alone", [] { return posting<io_executor>(1, 1, 1); })
      .run(repetitions);

  bench::match{"B6b", "semaphore(8), 64 coroutines, two threads on one io_context"}
      .add("semaphore.acquire", [] { return contended<any>(8, 2, acquire); })
      .add("floor: a list under the same lock, and a post", [] { return contended_bare(8, 2); })
      .add("bare Asio: the yield, and a post to hand over", [] { return posting<any>(8, 2, 2); })
      .add("bare Asio: the yield alone, 8 coroutines", [] { return posting<any>(8, 1, 2); })
      .run(repetitions);
}

}  // namespace

int main() {
  const bench::second_thread sleeps;
  free_permits();
  contended_permits();
  alternatives();
  sublimits();
}
