// Measures the policies around a call that succeeds: a circuit breaker by itself (B18), by two threads (B18-2), around
// a coroutine (B18-call), and a policy with all of its usual parts (B21).

#include "canigo/circuit_breaker.hpp"
#include "canigo/policy.hpp"

#include "loops.hpp"

#include <asio/this_coro.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <tuple>

namespace net = canigo::net;
using namespace std::chrono_literals;

namespace {

constexpr int repetitions = 7;
constexpr std::int64_t many = 1'000'000;

net::awaitable<int> one() { co_return 1; }

void pass(canigo::circuit_breaker& b) {
  if (auto p = b.try_enter()) p->succeeded();
}

/// Reads the clock twice, the minimum that a breaker needs to measure a call's duration.
void read_clock_twice() {
  std::ignore = std::chrono::steady_clock::now();
  std::ignore = std::chrono::steady_clock::now();
}

void breakers() {
  net::io_context io;
  canigo::circuit_breaker breaker{io, {}};
  bench::match{"B18", "a call passes a closed breaker and reports success"}
      .add("circuit_breaker.try_enter", [&] { return bench::repeated(many, [&] { pass(breaker); }); })
      .add("floor: steady_clock, twice", [] { return bench::repeated(many, read_clock_twice); })
      .run(repetitions);
  bench::match{"B18-2", "the same by two threads"}
      .add("circuit_breaker.try_enter", [&] { return bench::by_two_threads(many, [&] { pass(breaker); }); })
      .add("floor: steady_clock, twice", [] { return bench::by_two_threads(many, read_clock_twice); })
      .run(repetitions);
  bench::match{"B18-call", "an operation that does nothing, through a closed breaker"}
      .add("with_breaker",
           [&] {
             return bench::in_coroutine(many, [&]() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) std::ignore = co_await canigo::with_breaker(one(), breaker);
             });
           })
      .add("floor: steady_clock, twice, two empty coroutines",
           [] {
             return bench::in_coroutine(many, []() -> net::awaitable<void> {
               for (auto i = many; i > 0; --i) {
                 read_clock_twice();
                 co_await bench::child();
                 std::ignore = co_await one();
               }
             });
           })
      .run(repetitions);
}

/// Measures calls through a policy whose limits are never reached.
bench::sample through_policy(std::optional<canigo::duration> timeout) {
  constexpr std::int64_t calls = many / 10;
  const canigo::policy_options options{
      .timeout = timeout,
      .breaker = canigo::circuit_breaker_options{},
      .retry = canigo::retry_policy{.attempts = 3},
      .limits =
          canigo::limiter_options{.rates = {{canigo::rate{1, 1ns}, 1'000'000'000, 1'000'000'000}}, .concurrency = 64}};
  return bench::in_coroutine(calls, [&options]() -> net::awaitable<void> {
    canigo::policy p{co_await net::this_coro::executor, options};
    for (auto i = calls; i > 0; --i) std::ignore = co_await p.run(one);
  });
}

void composed() {
  bench::match{"B21", "an operation that does nothing, through timeout, breaker, retry, rate and cap"}
      .add("policy.run", [] { return through_policy(2s); })
      .add("the same without a timeout", [] { return through_policy(std::nullopt); })
      .run(repetitions);
}

}  // namespace

int main() {
  const bench::second_thread sleeps;
  breakers();
  composed();
}
