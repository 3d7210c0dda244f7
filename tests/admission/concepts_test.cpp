#include "canigo/concepts.hpp"

#include "canigo/error.hpp"
#include "canigo/keyed.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <string>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

static_assert(limit<scheduler> && limit<semaphore> && limit<limiter>);
static_assert(throughput_limit<scheduler> && !throughput_limit<semaphore> && !throughput_limit<limiter>);
static_assert(concurrency_limit<semaphore> && !concurrency_limit<scheduler> && !concurrency_limit<limiter>);
static_assert(std::is_void_v<grant_of<scheduler>> && std::is_same_v<grant_of<semaphore>, permit>);
static_assert(permit_like<permit> && !revocable_permit<permit>);
static_assert(keyed_limit<keyed_scheduler<std::string>, std::string>);
static_assert(keyed_limit<keyed_semaphore<int>, int>);
static_assert(!keyed_limit<scheduler, int> && !limit<keyed_scheduler<int>>);
static_assert(!limit<int> && !limit<permit> && !permit_like<int>);

namespace {

/// Code for any limit: what it says when asked in ways that all answer alike.
template <limit L>
net::awaitable<std::string> what_it_says(L& l) {
  std::string said;
  const auto note = [&](const std::error_code& ec) { said += ec ? ec.message() + "; " : "granted; "; };
  note(co_await outcome_of(l.acquire({})));
  note(co_await outcome_of(l.acquire({.priority = 7})));
  note(co_await outcome_of(l.acquire({.tokens = 0})));
  note(co_await outcome_of(l.acquire({.tokens = 1000})));
  note(co_await outcome_of(l.acquire({.deadline = time_point::min()})));
  l.pause();
  said += l.try_acquire({}) ? "let in; " : "not now; ";
  l.resume();
  l.stop();
  note(co_await outcome_of(l.acquire({})));
  said += std::to_string(l.stats().granted) + " of " + std::to_string(l.stats().requested);
  co_return said;
}

template <limit L>
std::string what_it_says(limits_run& run, L& l) {
  std::string said;
  run.go([&]() -> net::awaitable<void> { said = co_await what_it_says(l); });
  run.time.run();
  return said;
}

}  // namespace

TEST_CASE("all limits say the same to the same requests") {
  limits_run run;
  scheduler rate_of{run.io, {.rate = rate::per_second(10), .burst = 3, .initial_tokens = 3, .priorities = 2}};
  semaphore places{run.io, {.permits = 3, .priorities = 2}};
  limiter both{run.io, {.rates = {{rate::per_second(10), 3, 3}}, .concurrency = 3, .priorities = 2}};
  const std::string said = what_it_says(run, rate_of);
  CAPTURE(said);
  CHECK(said.starts_with("granted; "));
  CHECK(said.ends_with("; 1 of 7"));
  CHECK(what_it_says(run, places) == said);
  CHECK(what_it_says(run, both) == said);
}
