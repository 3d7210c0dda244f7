#include "canigo/keyed.hpp"

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/concepts.hpp"
#include "canigo/flow.hpp"
#include "canigo/keyed_options.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/testing/simulation.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/sanitized.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/thread_pool.hpp>

#include <algorithm>
#include <atomic>
#include <malloc.h>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace keyed_test {

using strings = keyed_scheduler<std::string>;
using numbers = keyed_scheduler<std::uint64_t>;
using places = keyed_semaphore<std::string>;

template <class Limit, class Key>
void wait_for(limits_run& run, Limit& l, Key key, const std::string& name, request r = {}) {
  run.go([&run, &l, key, name, r]() -> net::awaitable<void> {
    const auto how = co_await outcome_of(l.acquire(key, r));
    run.note(name + (how ? " " + how.message() : ""));
  });
}

/// The bytes of the heap that are in use; 0 where nobody counts them.
std::size_t heap_bytes() {
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
  if (!is_sanitized) {
    const auto info = ::mallinfo2();
    return info.uordblks + info.hblkhd;
  }
#endif
#endif
  return 0;
}

/// A hash that a program might write.
struct bad_hash {
  std::uint64_t operator()(std::uint64_t) const noexcept { return 7; }
};

// ---- a rate for each key --------------------------------------------------------------------------------------------

TEST_CASE("each key has a rate of its own, and begins with its burst", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .burst = 3}};
  for (int i = 0; i < 3; ++i) CHECK(s.try_acquire("a"));
  CHECK_FALSE(s.try_acquire("a"));
  CHECK(s.retry_after("a") == 100ms);
  CHECK(s.try_acquire("b", {.tokens = 3}));
  CHECK(s.retry_after("b", {.tokens = 2}) == 200ms);
  CHECK(s.retry_after("c") == 0ms);
  run.time.run_for(100ms);
  CHECK(s.try_acquire("a"));
  CHECK_FALSE(s.try_acquire("a"));
  CHECK(s.stats().keys == 2);
  CHECK(s.stats().granted == 5);
  CHECK(s.stats().refused == 2);
}

TEST_CASE("a key's waiters go by class and arrival, and the key has an engine as long as there are any", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .priorities = 2}};
  CHECK(s.try_acquire("a"));
  wait_for(run, s, "a", "low 1", {.priority = 1});
  wait_for(run, s, "a", "low 2", {.priority = 1});
  wait_for(run, s, "a", "high");
  wait_for(run, s, "b", "other");
  run.time.poll();
  CHECK(s.stats().keys_with_waiters == 1);
  CHECK(s.stats().waiting == 3);
  CHECK_FALSE(s.try_acquire("a"));
  CHECK(s.retry_after("a") == 200ms);  // behind the one of its class
  run.time.run();
  CHECK(run.log == log_lines{"other@0", "high@100", "low 1@200", "low 2@300"});
  const keyed_stats end = s.stats();
  CHECK(end.keys_with_waiters == 0);
  CHECK(end.waiting == 0);
  CHECK(end.granted == 5);
  CHECK(end.given_up == 0);
}

TEST_CASE("nobody overtakes the waiters of a key", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .burst = 2}};
  CHECK(s.try_acquire("a", {.tokens = 2}));
  wait_for(run, s, "a", "heavy", {.tokens = 2});
  run.time.run_for(150ms);
  CHECK_FALSE(s.try_acquire("a"));
  wait_for(run, s, "a", "light");
  run.time.run();
  CHECK(run.log == log_lines{"heavy@200", "light@300"});
}

TEST_CASE("a key keeps its schedule when its waiters come and go", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate{7, 3s}}};
  CHECK(s.try_acquire("a"));
  for (int i = 0; i < 7; ++i) {
    wait_for(run, s, "a", "w");
    run.time.run_for(i % 2 == 0 ? 10ms : 440ms);
  }
  run.time.run();
  CHECK(run.log.back() == "w@3000");  // seven after three seconds, whatever engines there were meanwhile
}

TEST_CASE("a request of a key can be cancelled, time out, and be refused; it consumes nothing", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .most_waiting = 3, .queue_limit = 2}};
  CHECK(s.try_acquire("a"));
  CHECK(s.try_acquire("b"));
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { co_await s.acquire("a"); }, signal, ended);
  wait_for(run, s, "a", "second");
  run.time.poll();
  wait_for(run, s, "a", "third");
  run.time.poll();
  wait_for(run, s, "a", "late", {.deadline = run.time.now() + 250ms});
  run.time.poll();
  CHECK(run.log == log_lines{"third the queue is full@0", "late the deadline can't be met@0"});
  wait_for(run, s, "b", "b");
  run.time.poll();
  wait_for(run, s, "b", "too many");
  run.time.poll();
  CHECK(run.log.back() == "too many the queue is full@0");
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  run.time.run();
  CHECK(std::count(run.log.begin(), run.log.end(), "second@100") == 1);
  CHECK(s.stats().waiting == 0);
  CHECK(s.stats().given_up == 3);
  CHECK(s.stats().refused == 1);
  CHECK(s.try_acquire("c"));
  wait_for(run, s, "c", "in time", {.deadline = run.time.now() + 100ms});
  wait_for(run, s, "c", "timed out", {.deadline = run.time.now() + 200ms});
  run.time.poll();
  CHECK(s.stats().waiting == 2);
  run.time.run();
  CHECK(std::count(run.log.begin(), run.log.end(), "in time@200") == 1);
}

TEST_CASE("an invalid request of a key is named", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .burst = 2}};
  CHECK(
      refusal_of([&] { (void)s.try_acquire("a", {.tokens = 3}); }).starts_with("request.tokens is 3; allowed: 1 to 2"));
  CHECK(refusal_of([&] {
          (void)s.try_acquire("a", {.tokens = 0});
        }).starts_with("request.tokens is 0; allowed: 1 or more"));
  CHECK(refusal_of([&] {
          (void)s.retry_after("a", {.priority = 1});
        }).starts_with("request.priority is 1; allowed: 0 to 0"));
  CHECK(refusal_of([&] {
          (void)s.try_acquire("a", {.amounts = {{"bytes", 1}}});
        }).starts_with("request.amounts.size() is 1; allowed: 0, because this limit has no other unit"));
  CHECK(s.stats().keys == 0);
  semaphore other{run.io, {}};
  const flow of_another{other, {}};
  CHECK(refusal_of([&] {
          (void)s.try_acquire("a", {.flow = &of_another});
        }).starts_with("request.flow is of another limit; allowed: none, as each key has a limit of its own"));
  std::string said;
  run.go([&]() -> net::awaitable<void> { said = co_await outcome_of_any(s.acquire("a", {.tokens = 3})); });
  run.time.run();
  CHECK(said.starts_with("request.tokens is 3"));
  CHECK(s.stats().keys == 0);
}

// ---- bounded keys ---------------------------------------------------------------------------------------------------

TEST_CASE("a key whose bucket is full again is forgotten for a new one, and no other", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .burst = 2, .most_keys = 2}};
  CHECK(s.try_acquire("a", {.tokens = 2}));
  CHECK(s.try_acquire("b"));
  CHECK_FALSE(s.try_acquire("c"));
  CHECK(s.retry_after("c") == 100ms);
  run.time.run_for(100ms);
  CHECK(s.try_acquire("c"));  // in the place of b
  CHECK(s.stats().keys == 2);
  CHECK(s.stats().forgotten == 1);
  CHECK(s.stats().beyond == 1);
  CHECK(s.try_acquire("a"));  // a still has its debt
  CHECK_FALSE(s.try_acquire("a"));
  CHECK_FALSE(s.try_acquire("b"));
}

TEST_CASE("a key is forgotten at the nanosecond at which it can't be told from a new one", "[keyed]") {
  limits_run run;
  SECTION("a whole number of nanoseconds after") {
    strings s{run.io, {.rate = rate{1, 100ns}, .burst = 1, .most_keys = 1}};
    CHECK(s.try_acquire("a"));
    run.time.run_for(99ns);
    CHECK_FALSE(s.try_acquire("b"));
    run.time.run_for(1ns);
    CHECK(s.try_acquire("b"));
  }
  SECTION("or else one later, so that a fraction of its next token is not lost") {
    strings s{run.io, {.rate = rate{3, 10ns}, .burst = 1, .most_keys = 1}};
    CHECK(s.try_acquire("a"));
    run.time.run_for(4ns);
    CHECK(s.retry_after("a") == 0ns);
    CHECK_FALSE(s.try_acquire("b"));
    run.time.run_for(1ns);
    CHECK(s.try_acquire("b"));
  }
}

TEST_CASE("a new key that is too many is refused, or shares a limit with all the others", "[keyed]") {
  limits_run run;
  SECTION("refused") {
    strings s{run.io, {.rate = rate::per_second(10), .most_keys = 1}};
    CHECK(s.try_acquire("a"));
    wait_for(run, s, "b", "b");
    run.time.poll();
    CHECK(run.log == log_lines{"b too many keys@0"});
  }
  SECTION("shares one") {
    strings s{run.io, {.rate = rate::per_second(10), .most_keys = 1, .on_new_key = overflow_of_keys::share_one}};
    CHECK(s.try_acquire("a"));
    CHECK(s.try_acquire("b"));
    CHECK_FALSE(s.try_acquire("c"));
    CHECK(s.retry_after("d") == 100ms);
    wait_for(run, s, "b", "b");
    wait_for(run, s, "e", "e");
    wait_for(run, s, "a", "a");
    run.time.poll();
    CHECK(s.stats().waiting == 3);
    CHECK(s.stats().keys == 1);
    run.time.run();
    std::sort(run.log.begin(), run.log.end());
    CHECK(run.log == log_lines{"a@100", "b@100", "e@200"});
  }
}

TEST_CASE("a refusal of a key is told by an error code as by an exception", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .most_keys = 2, .most_waiting = 2, .queue_limit = 1}};
  std::vector<std::pair<std::string, request>> asked;
  for (const request& r : {request{}, {}, {.deadline = run.time.now() + 50ms}, {}, {.priority = 3}, {.tokens = 7}}) {
    asked.emplace_back("a", r);
  }
  asked.emplace_back("b", request{.deadline = run.time.now() - 1ns});
  asked.emplace_back("b", request{});
  asked.emplace_back("c", request{});
  std::vector<std::error_code> told(asked.size(), errc::lease_lost);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      co_await s.acquire(asked[i].first, asked[i].second, told[i]);
      if (!told[i]) run.note(std::to_string(i));
    });
  }
  run.time.run();
  CHECK(run.log == log_lines{"0@0", "7@0", "1@100"});
  CHECK(told == std::vector<std::error_code>{{},
                                             {},
                                             errc::deadline_unreachable,
                                             errc::queue_full,
                                             errc::invalid_priority,
                                             errc::too_large,
                                             errc::deadline_unreachable,
                                             {},
                                             errc::too_many_keys});
  s.stop();
  std::error_code late;
  run.go([&]() -> net::awaitable<void> { co_await s.acquire("a", {}, late); });
  run.time.run();
  CHECK(late == errc::stopped);
  CHECK(s.stats().waiting == 0);
  CHECK(s.stats().most_keys == 2);
}

TEST_CASE("a permit of a key that failed is empty, and one that is cancelled consumes nothing", "[keyed]") {
  limits_run run;
  places p{run.io, {.permits = 1}};
  auto held = p.try_acquire("a");
  net::cancellation_signal signal;
  std::error_code ended, told;
  places::permit got;
  run.go([&]() -> net::awaitable<void> { got = co_await p.acquire("a", {}, told); }, signal, ended);
  run.time.poll();
  CHECK(p.stats().waiting == 1);
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(told == net::error::operation_aborted);
  CHECK_FALSE(got);
  held.reset();
  run.go([&]() -> net::awaitable<void> { got = co_await p.acquire("a", {}, told); });
  run.time.run();
  CHECK_FALSE(told);
  CHECK(got.held() == 1);
  got.release();
  CHECK(p.stats().keys == 0);
}

TEST_CASE("a key with waiters is not forgotten, however full it could be", "[keyed]") {
  limits_run run;
  strings s{run.io, {.rate = rate::per_second(10), .burst = 2, .most_keys = 1}};
  CHECK(s.try_acquire("a", {.tokens = 2}));
  wait_for(run, s, "a", "a", {.tokens = 2});
  run.time.run_for(199ms);
  CHECK_FALSE(s.try_acquire("b"));
  run.time.run();
  CHECK(run.log == log_lines{"a@200"});
}

TEST_CASE("a flood of keys: the bound holds, and the keys that were there keep their state", "[keyed]") {
  limits_run run;
  numbers s{run.io, {.rate = rate{1, 1h}, .burst = 2, .most_keys = 20'000}};
  std::size_t granted = 0;
  for (std::uint64_t k = 0; k < 10'000; ++k) granted += s.try_acquire(k, {.tokens = 2}) ? 1 : 0;
  CHECK(granted == 10'000);
  granted = 0;
  for (std::uint64_t k = 1'000'000; k < 1'300'000; ++k) granted += s.try_acquire(k) ? 1 : 0;
  CHECK(granted == 10'000);
  CHECK(s.stats().keys == 20'000);
  CHECK(s.stats().beyond == 290'000);
  CHECK(s.stats().bytes <= 20'000 * 72);
  std::size_t kept = 0;
  for (std::uint64_t k = 0; k < 10'000; ++k) kept += s.try_acquire(k) ? 0 : 1;
  CHECK(kept == 10'000);
  // Once they are as good as new, they make room.
  run.time.run_for(3h);
  granted = 0;
  for (std::uint64_t k = 2'000'000; k < 2'020'000; ++k) granted += s.try_acquire(k) ? 1 : 0;
  CHECK(granted == 20'000);
  CHECK(s.stats().keys <= 20'000);
}

TEST_CASE("keys that come once are forgotten while others come, before the table is full", "[keyed]") {
  limits_run run;
  numbers s{run.io, {.rate = rate::per_second(1'000), .most_keys = 1'000'000}};
  for (std::uint64_t k = 0; k < 200'000; ++k) {
    if (!s.try_acquire(k)) FAIL("key " << k);
    if (k % 100 == 0) run.time.run_for(1ms);
  }
  CHECK(s.stats().keys < 2'000);
  CHECK(s.stats().bytes < 1'000'000);
}

TEST_CASE("a million keys cost less than 100 bytes each, all that is on the heap", "[keyed]") {
  limits_run run;
  const std::size_t before = heap_bytes();
  strings s{run.io, {.rate = rate{1, 1h}, .most_keys = 1'000'000}};
  int granted = 0;
  for (int k = 0; k < 1'000'000; ++k) granted += s.try_acquire("client " + std::to_string(k)) ? 1 : 0;
  CHECK(granted == 1'000'000);
  CHECK(s.stats().keys == 1'000'000);
  CHECK(s.stats().bytes <= 90'000'000);
  CHECK(heap_bytes() - before <= 100'000'000);
  CHECK_FALSE(s.try_acquire("client 1000000"));
}

TEST_CASE("a bad hash makes a table slow and nothing worse", "[keyed]") {
  limits_run run;
  keyed<scheduler, std::uint64_t, bad_hash> s{run.io, {.rate = rate::per_second(1), .most_keys = 700}};
  for (std::uint64_t k = 0; k < 700; ++k) CHECK(s.try_acquire(k));
  for (std::uint64_t k = 0; k < 701; ++k) CHECK_FALSE(s.try_acquire(k));
  run.time.run_for(1001ms);
  for (std::uint64_t k = 0; k < 1'000; ++k) CHECK(s.try_acquire(k) == (k < 700));
}

// ---- the end --------------------------------------------------------------------------------------------------------

TEST_CASE("stop ends the waiters of all keys", "[keyed]") {
  limits_run run;
  auto s = std::make_unique<strings>(run.io, keyed_scheduler_options{.rate = rate::per_second(1)});
  for (const char* k : {"a", "b"}) {
    CHECK(s->try_acquire(k));
    wait_for(run, *s, k, k);
  }
  run.time.poll();
  SECTION("called") {
    s->stop();
    s->stop();
    CHECK_FALSE(s->try_acquire("c"));
    wait_for(run, *s, "c", "c");
    run.time.run();
    CHECK(run.log.back() == "c stopped@0");
    run.log.pop_back();
  }
  SECTION("by the destructor") {
    s.reset();
    run.time.run();
  }
  CHECK(run.log.size() == 2);
  CHECK(run.log.front().ends_with("stopped@0"));
}

TEST_CASE("the context of a keyed limit may go first, with waiters", "[keyed]") {
  std::optional<strings> s;
  std::optional<places> p;
  std::optional<keyed_permit<std::string>> out;
  int gone = 0;
  {
    limits_run run;
    s.emplace(run.io, keyed_scheduler_options{.rate = rate::per_second(1)});
    p.emplace(run.io, keyed_semaphore_options{});
    CHECK(s->try_acquire("a"));
    out = p->try_acquire("a");
    run.go([&, mark = std::shared_ptr<int>{&gone, [](int* n) { ++*n; }}]() -> net::awaitable<void> {
      co_await s->acquire("a");
    });
    run.go([&, mark = std::shared_ptr<int>{&gone, [](int* n) { ++*n; }}]() -> net::awaitable<void> {
      (void)co_await p->acquire("a");
    });
    run.time.poll();
    CHECK(gone == 0);
  }
  CHECK(gone == 2);
  CHECK_FALSE(s->try_acquire("b"));
  CHECK(s->stats().keys_with_waiters == 0);
  out->release();
  CHECK(p->stats().keys == 0);
}

TEST_CASE("a keyed limit may be destroyed by a waiter that it lets go", "[keyed]") {
  limits_run run;
  auto s = std::make_unique<strings>(run.io, keyed_scheduler_options{.rate = rate::per_second(10)});
  CHECK(s->try_acquire("a"));
  run.go([&]() -> net::awaitable<void> {
    co_await s->acquire("a");
    s.reset();
  });
  wait_for(run, *s, "a", "other");
  run.time.run();
  CHECK(run.log == log_lines{"other stopped@100"});
}

TEST_CASE("an acquire of a key that was not started keeps what it needs", "[keyed]") {
  limits_run run;
  auto s = std::make_unique<strings>(run.io, keyed_scheduler_options{.rate = rate::per_second(10)});
  net::awaitable<void> op = s->acquire("a");
  s.reset();
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { ended = co_await outcome_of(std::move(op)); });
  run.time.run();
  CHECK(ended == errc::stopped);
}

TEST_CASE("a loop of acquires lets the other handlers run", "[keyed]") {
  limits_run run;
  numbers s{run.io, {.rate = rate::per_second(1'000'000), .burst = 1'000'000}};
  int turns = 0;
  bool ends = false;
  run.go([&]() -> net::awaitable<void> {
    for (std::uint64_t i = 0; i < 1'300; ++i) co_await s.acquire(i % 10);
    ends = true;
  });
  run.go([&]() -> net::awaitable<void> {
    while (!ends) {
      ++turns;
      co_await net::post(net::use_awaitable);
    }
  });
  run.time.run();
  CHECK(turns >= 10);
}

// ---- permits for each key -------------------------------------------------------------------------------------------

TEST_CASE("each key has permits of its own, and costs nothing without one out", "[keyed]") {
  limits_run run;
  places p{run.io, {.permits = 2, .most_keys = 2}};
  auto a1 = p.try_acquire("a");
  auto a2 = p.try_acquire("a");
  CHECK(a1->held() == 1);
  CHECK_FALSE(p.try_acquire("a"));
  auto b = p.try_acquire("b", {.tokens = 2});
  CHECK(b->held() == 2);
  CHECK_FALSE(p.try_acquire("c"));
  CHECK(p.stats().keys == 2);
  a1.reset();
  CHECK(p.try_acquire("a"));
  b->release();
  CHECK_FALSE(static_cast<bool>(*b));
  b->release();
  CHECK(p.stats().keys == 1);
  auto c = p.try_acquire("c");
  CHECK(c);
  a2.reset();
  c.reset();
  CHECK(p.stats().keys == 0);
}

TEST_CASE("a permit that comes back goes to the first waiter of its key", "[keyed]") {
  limits_run run;
  places p{run.io, {.permits = 2, .priorities = 2}};
  auto one = p.try_acquire("a");
  auto two = p.try_acquire("a");
  const auto hold = [&](const char* name, request r) {
    run.go([&run, &p, name, r]() -> net::awaitable<void> {
      const auto mine = co_await p.acquire("a", r);
      run.note(name);
      co_await sleep_for(10ms);
    });
  };
  hold("low", {.priority = 1});
  hold("high", {.tokens = 2});
  run.time.poll();
  CHECK(p.stats().waiting == 2);
  one.reset();
  run.time.poll();
  CHECK(run.log.empty());
  CHECK_FALSE(p.try_acquire("a"));
  two->release();
  run.time.run();
  CHECK(run.log == log_lines{"high@0", "low@10"});
  CHECK(p.stats().keys == 0);
  CHECK(p.stats().keys_with_waiters == 0);
}

TEST_CASE("keys that are too many share their permits, and give them back", "[keyed]") {
  limits_run run;
  places p{run.io, {.most_keys = 1, .on_new_key = overflow_of_keys::share_one}};
  auto a = p.try_acquire("a");
  auto b = p.try_acquire("b");
  CHECK(b);
  CHECK_FALSE(p.try_acquire("c"));
  wait_for(run, p, "c", "c");
  run.time.poll();
  b.reset();
  run.time.poll();
  CHECK(run.log == log_lines{"c@0"});
}

TEST_CASE("a permit of a key may outlive the limit, and moves", "[keyed]") {
  STATIC_REQUIRE(permit_like<keyed_permit<std::string>>);
  limits_run run;
  auto p = std::make_unique<places>(run.io, keyed_semaphore_options{});
  keyed_permit<std::string> one = p->try_acquire("a").value();
  keyed_permit<std::string> two;
  two = std::move(one);
  CHECK(two.held() == 1);
  CHECK(one.held() == 0);
  CHECK_FALSE(p->try_acquire("a"));
  p.reset();
  two.release();
}

// ---- against a model, and with threads ------------------------------------------------------------------------------

TEST_CASE("a keyed scheduler decides as a bucket for each key would", "[keyed]") {
  std::mt19937_64 random{12345};
  for (int round = 0; round < 20; ++round) {
    limits_run run;
    const rate r{static_cast<std::int64_t>(1 + random() % 9), std::chrono::nanoseconds{10 + random() % 1000}};
    const std::uint64_t burst = 1 + random() % 5;
    numbers s{run.io, {.rate = r, .burst = burst, .most_keys = 64}};
    std::map<std::uint64_t, token_bucket> model;
    for (int step = 0; step < 2'000; ++step) {
      const std::uint64_t key = random() % 60;
      const std::uint64_t tokens = 1 + random() % burst;
      const time_point now = run.time.now();
      token_bucket& b = model.try_emplace(key, r, burst, burst, now).first->second;
      const duration wait = b.ready_at(now, tokens) - now;
      const bool same_wait = s.retry_after(key, {.tokens = tokens}) == wait;
      const bool same_grant = s.try_acquire(key, {.tokens = tokens}) == b.try_take(now, tokens);
      if (!same_wait || !same_grant) FAIL("round " << round << " step " << step);
      if (random() % 3 == 0) run.time.run_for(std::chrono::nanoseconds{random() % 500});
    }
  }
}

TEST_CASE("waiters of keys in a random order: as many tokens as the rates allow, and nothing is left", "[keyed]") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    testing::simulation world{seed};
    INFO("seed=" << seed);
    keyed_scheduler<std::uint64_t> s{net::any_io_executor{world.get_executor()},
                                     {.rate = rate{1, 10ms}, .burst = 2, .most_keys = 6}};
    std::map<std::uint64_t, std::vector<duration>> granted;
    std::vector<std::unique_ptr<net::cancellation_signal>> signals;
    int ended = 0;
    for (int i = 0; i < 40; ++i) {
      signals.push_back(std::make_unique<net::cancellation_signal>());
      net::co_spawn(
          net::any_io_executor{world.get_executor()},
          [&]() -> net::awaitable<void> {
            co_await sleep_for(std::chrono::milliseconds{world.random(100)});
            const std::uint64_t key = world.random(8);
            request r;
            if (world.random(2) == 0) r.deadline = world.now() + 30ms;
            const auto how = co_await outcome_of(s.acquire(key, r));
            if (!how) granted[key].push_back(world.elapsed());
            ++ended;
          },
          net::bind_cancellation_slot(signals.back()->slot(), [&](std::exception_ptr e) { ended += e ? 1 : 0; }));
    }
    world.run_for(std::chrono::milliseconds{world.random(100)});
    for (int i = 0; i < 5; ++i) signals[world.random(40)]->emit(net::cancellation_type::terminal);
    world.run();
    CHECK(ended == 40);
    for (const auto& [key, at] : granted) {
      for (std::size_t first = 0; first < at.size(); ++first) {
        for (std::size_t last = first; last < at.size(); ++last) {
          const auto tokens = static_cast<std::int64_t>(last - first + 1);
          if (tokens > 2 + (at[last] - at[first]) / 10ms) FAIL("key " << key << " too fast");
        }
      }
    }
    CHECK(s.stats().waiting == 0);
    CHECK(s.stats().keys_with_waiters == 0);
    CHECK(s.stats().keys <= 6);
  }
}

TEST_CASE("threads that use the same keys get no more than the limit", "[keyed]") {
  net::io_context io;
  keyed_scheduler<std::uint64_t> s{io, {.rate = rate{1, 24h}, .burst = 100, .most_keys = 5'000}};
  keyed_semaphore<std::uint64_t> p{io, {.permits = 1, .most_keys = 5'000}};
  std::atomic<int> granted{0};
  std::atomic<bool> overlap{false};
  std::vector<std::atomic<int>> inside(16);
  const auto work = [&](std::uint64_t seed) {
    std::mt19937_64 random{seed};
    for (int i = 0; i < 20'000; ++i) {
      if (s.try_acquire(random() % 16)) ++granted;
      (void)s.try_acquire(1'000 + random() % 100'000);
      const std::uint64_t key = random() % 16;
      if (auto mine = p.try_acquire(key)) {
        if (++inside[key] > 1) overlap = true;
        --inside[key];
      }
    }
  };
  std::thread other{work, 1};
  std::thread third{work, 2};
  work(3);
  other.join();
  third.join();
  CHECK(granted == 1'600);
  CHECK_FALSE(overlap);
  CHECK(s.stats().keys <= 5'000);
  CHECK(p.stats().keys == 0);
}

TEST_CASE("coroutines on several threads wait for the same keys", "[keyed]") {
  net::thread_pool pool{3};
  std::atomic<int> ended{0};
  std::atomic<int> inside{0};
  std::atomic<bool> overlap{false};
  {
    keyed_semaphore<std::uint64_t> p{pool, {.permits = 1, .most_keys = 4}};
    keyed_scheduler<std::uint64_t> s{pool, {.rate = rate::per_second(100'000), .most_keys = 4}};
    for (int i = 0; i < 300; ++i) {
      net::co_spawn(
          net::any_io_executor{pool.get_executor()},
          [&, i]() -> net::awaitable<void> {
            for (int n = 0; n < 20; ++n) {
              co_await s.acquire(static_cast<std::uint64_t>(i % 3));
              const auto mine = co_await p.acquire(7);
              if (++inside > 1) overlap = true;
              --inside;
            }
            ++ended;
          },
          net::detached);
    }
    pool.join();
    CHECK(p.stats().keys == 0);
    CHECK(s.stats().waiting == 0);
  }
  CHECK(ended == 300);
  CHECK_FALSE(overlap);
}

}  // namespace keyed_test
