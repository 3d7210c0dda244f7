// Measures a limit that two event loops share, each with its own thread, which is the usual way to use two cores (B23).
// In B23p a loop polls for a while before it sleeps.

#include "canigo/limiter.hpp"
#include "canigo/run_busy_polling.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include "bare_semaphore.hpp"
#include "loops.hpp"

#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <thread>
#include <type_traits>

namespace net = canigo::net;

namespace {

constexpr int repetitions = 7;
constexpr int contenders = 64;
constexpr std::int64_t rounds = 3'000;

/// No limit at all: only the yields remain.
struct none {
  template <class... Args>
  explicit none(Args&&...) {}
};

/// The simplest semaphore, with one list and one lock for both loops. A waiter is posted to its own loop.
struct bare : bench::bare_semaphore {
  bare(net::io_context&, std::uint64_t permits) : bare_semaphore{permits} {}
};

/// A coroutine that takes a permit or token repeatedly, and yields after each. A scheduler's token is not given back.
template <class Limit>
net::awaitable<void> contend([[maybe_unused]] Limit& limit) {
  for (auto i = rounds; i > 0; --i) {
    if constexpr (std::is_same_v<Limit, none>) {
      co_await net::post(net::use_awaitable);
    } else if constexpr (std::is_same_v<Limit, canigo::scheduler>) {
      co_await limit.acquire();
      co_await net::post(net::use_awaitable);
    } else if constexpr (std::is_same_v<Limit, bare>) {
      co_await limit.acquire();
      co_await net::post(net::use_awaitable);
      limit.release();
    } else {
      const canigo::permit held = co_await limit.acquire();
      co_await net::post(net::use_awaitable);
    }
  }
}

/// Measures contending coroutines, half of them on each loop. The loops share a limit, or each has its own.
template <class Limit, class Options>
bench::sample by_two_loops(bool is_shared, const Options& options, canigo::duration polls = {}) {
  net::io_context first{1}, second{1};
  Limit a{first, options}, b{second, options};
  for (int c = 0; c < contenders / 2; ++c) {
    net::co_spawn(first, contend(a), net::detached);
    net::co_spawn(second, contend(is_shared ? a : b), net::detached);
  }
  return bench::measure(contenders * rounds, [&] {
    std::thread other{[&] { canigo::run_busy_polling(second, polls); }};
    canigo::run_busy_polling(first, polls);
    other.join();
  });
}

// A token per nanosecond: the bucket is never empty.
const canigo::rate plenty{1, std::chrono::nanoseconds{1}};
constexpr std::uint64_t many = 1'000'000'000;

}  // namespace

int main() {
  using canigo::semaphore;
  const canigo::semaphore_options eight{.permits = 8}, four{.permits = 4};
  const canigo::limiter_options rate_and_cap{.rates = {{plenty, many, many}}, .concurrency = 8};
  const canigo::scheduler_options tokens{.rate = plenty, .burst = many, .initial_tokens = many};
  const auto yields = [] { return by_two_loops<none>(true, 0); };
  const auto floor = [] { return by_two_loops<bare>(true, std::uint64_t{8}); };
  bench::match{"B23", "semaphore(8) that two loops share, 64 coroutines yield while they hold it"}
      .add("semaphore.acquire", [&] { return by_two_loops<semaphore>(true, eight); })
      .add("semaphore.acquire, 4 permits for each loop", [&] { return by_two_loops<semaphore>(false, four); })
      .add("floor: a list under the same lock, and a post", floor)
      .add("bare Asio: the yield alone", yields)
      .run(repetitions);
  bench::match{"B23l", "the same with a limiter: a rate that is not reached, and a cap of 8"}
      .add("limiter.acquire", [&] { return by_two_loops<canigo::limiter>(true, rate_and_cap); })
      .add("floor: a list under the same lock, and a post", floor)
      .add("bare Asio: the yield alone", yields)
      .run(repetitions);
  constexpr std::chrono::microseconds polls{20};
  const auto polling_floor = [=] { return by_two_loops<bare>(true, std::uint64_t{8}, polls); };
  bench::match{"B23p", "B23 with loops that poll for 20 us before they sleep"}
      .add("semaphore.acquire", [&] { return by_two_loops<semaphore>(true, eight, polls); })
      .add("floor: a list under the same lock, and a post", polling_floor)
      .add("bare Asio: the yield alone", yields)
      .run(repetitions);
  bench::match{"B23lp", "B23l with loops that poll for 20 us before they sleep"}
      .add("limiter.acquire", [&] { return by_two_loops<canigo::limiter>(true, rate_and_cap, polls); })
      .add("floor: a list under the same lock, and a post", polling_floor)
      .add("bare Asio: the yield alone", yields)
      .run(repetitions);
  bench::match{"B23r", "a scheduler's tokens, all there, that two loops share"}
      .add("scheduler.acquire", [&] { return by_two_loops<canigo::scheduler>(true, tokens); })
      .add("bare Asio: the yield alone", yields)
      .run(repetitions);
}
