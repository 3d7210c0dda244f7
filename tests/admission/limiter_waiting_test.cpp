// What a limiter tells of those that wait, and repeats that keep their first arrival.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

using namespace canigo;
using namespace std::chrono_literals;

namespace limiter_waiting {

auto shown_caller(limits_run& run, limiter& l, std::string name, request r, duration hold = 0s) {
  return [&run, &l, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await l.acquire(r, ec);
    run.note(ec ? name + "=" + ec.message() : name);
    co_await sleep_for(hold);
  };
}

using cause = wait_reason::cause;

}  // namespace limiter_waiting

using namespace limiter_waiting;

TEST_CASE("a limiter lists its first waiters, in order, with what each waits for", "[limiter][waiting]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 5, 1}, {rate::per_second(100), 50, 50, "bytes"}},
             .concurrency = 3,
             .priorities = 2}};
  CHECK(l.waiting(10).empty());
  const permit out = l.try_acquire({.amounts = {{"bytes", 50}}}).value();
  run.go(shown_caller(run, l, "a", {.priority = 1, .tokens = 2, .tag = 7}));
  run.time.run_for(10ms);
  run.go(shown_caller(run, l, "b", {.priority = 0, .amounts = {{"bytes", 40}}, .tag = 8}));
  run.go(shown_caller(run, l, "c", {.priority = 1, .tag = 9}));
  run.time.run_for(10ms);

  const auto rows = l.waiting(10);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].tag == 8);
  CHECK(rows[0].priority == 0);
  CHECK(rows[0].tokens == 1);
  CHECK(rows[0].since == time_point{} + 10ms);
  CHECK(rows[0].estimate == 380ms);  // 40 bytes, of which 2 are there
  CHECK(rows[0].reason.binds == cause::rate);
  CHECK(rows[0].reason.index == 1);
  CHECK(rows[0].reason.until == time_point{} + 400ms);
  CHECK(rows[1].tag == 7);
  CHECK(rows[1].estimate == 380ms);  // 3 tokens are there after 280 ms, but the one before it goes later
  CHECK(rows[2].tag == 9);
  // Those before it will take the two places that are free. But one may have ended when the rate lets it go.
  CHECK(rows[2].reason.binds == cause::rate);
  CHECK(rows[2].reason.until == time_point{} + 400ms);
  CHECK(l.waiting(1).size() == 1);
  CHECK(l.waiting(1).front().tag == 8);

  l.pause_until(run.time.now() + 1s);
  CHECK(l.waiting(3)[2].reason.binds == cause::paused);
  CHECK(l.waiting(3)[0].estimate == 1s);
  l.pause();
  CHECK(l.waiting(3)[0].estimate == 380ms);
  CHECK(l.waiting(3)[0].reason.until == time_point::max());
  l.stop();
  run.time.run();
  CHECK(l.waiting(3).empty());
}

TEST_CASE("a scheduler and a semaphore list their first waiters, too", "[scheduler][semaphore][waiting]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(10), .priorities = 2}};
  semaphore m{run.io, {.permits = 1}};
  CHECK(s.waiting(2).empty());
  CHECK(m.waiting(2).empty());
  const permit out = m.try_acquire().value();
  run.go([&]() -> net::awaitable<void> { (void)co_await outcome_of(s.acquire({.priority = 1, .tag = 7})); });
  run.go([&]() -> net::awaitable<void> { (void)co_await outcome_of(s.acquire({.tag = 8})); });
  run.go([&]() -> net::awaitable<void> { (void)co_await outcome_of(m.acquire({.tag = 9})); });
  run.time.run_for(10ms);

  const auto of_rate = s.waiting(3);
  REQUIRE(of_rate.size() == 2);
  CHECK(of_rate[0].tag == 8);
  CHECK(of_rate[0].reason.binds == cause::rate);
  CHECK(of_rate[0].estimate == 90ms);
  CHECK(of_rate[1].tag == 7);
  CHECK(of_rate[1].priority == 1);
  CHECK(of_rate[1].estimate == 190ms);
  const auto of_places = m.waiting(3);
  REQUIRE(of_places.size() == 1);
  CHECK(of_places[0].tag == 9);
  CHECK(of_places[0].since == time_point{});
  CHECK(of_places[0].reason.binds == cause::concurrency);
  CHECK(of_places[0].reason.until == time_point::max());
  s.stop();
  m.stop();
  run.time.run();
}

TEST_CASE("with ageing no waiter of the list is promised a longer wait than it has", "[limiter][waiting]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1)}}, .priorities = 2, .ageing = 1s}};
  std::array<duration, 6> promised{}, waited{};
  for (unsigned i = 0; i < 6; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      co_await sleep_for(i * 300ms);
      const time_point since = run.time.now();
      const permit p = co_await l.acquire({.priority = i == 0 ? 1 : 0, .tag = i});
      waited[i] = run.time.now() - since;
    });
  }
  run.time.run_for(1ms);
  for (const waiting_request& w : l.waiting(10)) promised[w.tag] = w.estimate;
  run.time.run_for(600ms);
  for (const waiting_request& w : l.waiting(10)) {
    const duration since = run.time.now() - w.since;
    promised[w.tag] = std::max(promised[w.tag], since + w.estimate);
  }
  run.time.run();
  for (unsigned i = 0; i < 6; ++i) CHECK(promised[i] <= waited[i]);
}

TEST_CASE("a repeat that keeps its first arrival goes before those that came after that", "[limiter][waiting]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1)}}, .priorities = 2, .ageing = 10s}};
  const time_point first = run.time.now();
  run.time.run_for(1s);
  CHECK(l.try_acquire());
  run.go(shown_caller(run, l, "a", {.priority = 1}));
  run.go(shown_caller(run, l, "b", {.priority = 1}));
  run.go(shown_caller(run, l, "repeat", {.priority = 1, .since = first}));
  run.go(shown_caller(run, l, "later", {.priority = 1, .since = run.time.now() + 1h}));
  run.time.poll();
  CHECK(l.waiting(1).front().since == first);
  CHECK(l.waiting(4)[3].since == run.time.now());
  run.time.run();
  CHECK(run.log == log_lines{"repeat@2000", "a@3000", "b@4000", "later@5000"});
  CHECK(l.stats().classes[1].wait.max() == 4s);
}

TEST_CASE("a repeat keeps its first arrival within its flow", "[limiter][waiting][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1)}}}};
  flow x{l}, y{l};
  const time_point first = run.time.now();
  run.time.run_for(1s);
  CHECK(l.try_acquire());
  for (const char* name : {"a", "b"}) run.go(shown_caller(run, l, name, {.flow = &x}));
  for (const char* name : {"c", "d"}) run.go(shown_caller(run, l, name, {.flow = &y}));
  run.go(shown_caller(run, l, "repeat", {.flow = &x, .since = first}));
  run.time.poll();
  CHECK(l.waiting(1).front().since == first);
  run.time.run();
  CHECK(run.log == log_lines{"c@2000", "repeat@3000", "a@4000", "d@5000", "b@6000"});
}

TEST_CASE("a repeat is not refused for those that arrived after it", "[limiter][waiting][flow]") {
  limits_run run;
  const bool has_flows = GENERATE(false, true);
  const duration ageing = GENERATE(duration{10s}, duration::max());
  CAPTURE(has_flows);
  limiter l{run.io, {.rates = {{rate::per_second(1)}}, .priorities = 2, .ageing = ageing}};
  std::optional<flow> x;
  if (has_flows) x.emplace(l);
  const flow* const of = has_flows ? &*x : nullptr;
  run.time.run_for(9s);
  CHECK(l.try_acquire());
  for (const char* name : {"a", "b"}) run.go(shown_caller(run, l, name, {.priority = 1, .flow = of}));
  const time_point soon = run.time.now() + 1s;
  // In time for the next token; without its first arrival it would be the third.
  run.go(shown_caller(run, l, "repeat", {.priority = 1, .deadline = soon, .flow = of, .since = time_point{}}));
  CHECK(l.estimate({.priority = 1, .flow = of, .since = time_point{}}) <= l.estimate({.priority = 1, .flow = of}));
  run.time.run();
  CHECK(run.log == log_lines{"repeat@10000", "a@11000", "b@12000"});
}

TEST_CASE("the age of a repeat counts from its first arrival", "[limiter][waiting]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1)}}, .priorities = 2, .ageing = 10s}};
  run.time.run_for(9s);
  CHECK(l.try_acquire());
  run.go(shown_caller(run, l, "repeat", {.priority = 1, .since = time_point{}}));
  for (const char* name : {"a", "b", "c"}) run.go(shown_caller(run, l, name, {}));
  run.time.run();
  // At 10 s it has risen to their class, and came first there.
  CHECK(run.log == log_lines{"repeat@10000", "a@11000", "b@12000", "c@13000"});
}

TEST_CASE("the time for which each limit was binding is counted", "[limiter][waiting]") {
  limits_run run;
  const shared_cap cap{{.permits = 1}};
  limiter other{run.io, {.share = cap}};
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 1, 1}, {rate::per_second(1), 3, 3}}, .concurrency = 1, .share = cap}};
  run.go(shown_caller(run, l, "a", {}, 1s));
  run.time.run_for(10ms);
  CHECK(l.stats().binding.concurrency == 0s);
  run.go(shown_caller(run, l, "b", {}, 1s));  // waits for a's place until 1 s
  run.time.run_for(90ms);
  CHECK(l.stats().binding.concurrency == 90ms);
  run.time.run_until(time_point{} + 2s);  // b is inside until then
  CHECK(l.stats().binding.concurrency == 990ms);
  CHECK(l.stats().binding.rates == std::vector<duration>{0s, 0s});

  run.go(shown_caller(run, other, "o", {}, 500ms));
  run.time.poll();
  run.go(shown_caller(run, l, "c", {}));  // lacks a shared place until 2.5 s
  run.time.run_for(500ms);
  CHECK(l.stats().binding.share == 500ms);
  run.go(shown_caller(run, l, "d", {}));  // and then a token of the first rate, 100 ms after c
  run.time.run_for(500ms);
  CHECK(l.stats().binding.rates == std::vector<duration>{100ms, 0s});

  l.pause_until(run.time.now() + 2s);
  run.go(shown_caller(run, l, "e", {.tokens = 1}));
  run.time.run_for(3s);
  const auto s = l.stats().binding;
  CHECK(s.paused == 2s);
  CHECK(s.share == 500ms);
  CHECK(s.concurrency == 990ms);
  CHECK(run.log == log_lines{"a@0", "b@1000", "o@2000", "c@2500", "d@2600", "e@5000"});
}

TEST_CASE("the time for which only ceilings of flows were binding is counted as theirs", "[limiter][waiting][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}}, .concurrency = 1}};
  flow a{l, {.rates = {{rate::per_second(1), 1, 1}}}};
  run.go(shown_caller(run, l, "a", {.flow = &a}));
  run.go(shown_caller(run, l, "b", {.flow = &a}));  // the limit has a token for it after 100 ms, its flow after 1 s
  run.time.run_for(500ms);
  CHECK(l.stats().binding.flow == 500ms);
  l.pause_until(run.time.now() + 1s);  // which holds up more than its ceiling does
  run.time.run_for(1s);
  run.go(shown_caller(run, l, "c", {}, 1s));
  run.time.run_for(100ms);
  run.go(shown_caller(run, l, "d", {}));  // waits for c's place
  run.time.run_for(2s);
  const auto s = l.stats().binding;
  CHECK(s.flow == 500ms);
  CHECK(s.paused == 1s);
  CHECK(s.concurrency == 1s);
  CHECK(s.rates == std::vector<duration>{100ms});
  CHECK(run.log == log_lines{"a@0", "b@1500", "c@1600", "d@2600"});
}

TEST_CASE("no limit is binding once all who waited have left or were stopped", "[limiter][waiting]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_hour(1)}}}};
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { const permit p = co_await l.acquire(); }, signal, ended);
  run.time.run_for(2s);
  signal.emit(net::cancellation_type::terminal);
  run.time.run_for(2s);
  CHECK(l.stats().binding.rates.front() == 2s);
  run.go(shown_caller(run, l, "a", {.deadline = run.time.now() + 1h}));
  run.time.run_for(3s);
  l.stop();
  run.time.run_for(3s);
  CHECK(l.stats().binding.rates.front() == 5s);
}

TEST_CASE("a waiter of a flow is told of those of its flow that go before it", "[limiter][waiting][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10)}}, .priorities = 2}};
  flow a{l}, b{l, {.rates = {{rate::per_second(2)}}}};
  std::uint64_t tag = 0;
  const auto ask = [&](flow& f, int priority) {
    run.go(shown_caller(run, l, "caller", {.priority = priority, .flow = &f, .tag = ++tag}));
    run.time.poll();
  };
  ask(a, 1);
  ask(a, 1);
  ask(a, 0);
  ask(b, 0);
  ask(b, 1);
  ask(b, 1);
  const auto rows = l.waiting(10);
  std::string told;
  for (const waiting_request& w : rows) told += fmt::format("{}: {} ms, ", w.tag, w.estimate / 1ms);
  // The one of flow b in the class above may be held by its ceiling, so that nobody waits for it.
  CHECK(told == "3: 100 ms, 4: 500 ms, 1: 200 ms, 2: 300 ms, 5: 1000 ms, 6: 1500 ms, ");
  REQUIRE(rows.size() == 6);
  CHECK(rows[5].reason.binds == cause::flow);
  CHECK(rows[5].reason.ceiling == cause::rate);
  CHECK((rows[5].reason.until == run.time.now() + 1500ms));
  CHECK(rows[3].reason.binds == cause::rate);
  const auto first_two = l.waiting(2);
  REQUIRE(first_two.size() == 2);
  CHECK(first_two[0].tag == 3);
  CHECK(first_two[1].tag == 4);
  l.stop();
  run.time.run();
}

TEST_CASE("a waiter of a flow is told of the flow's cap", "[limiter][waiting][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 10, 10}}}};
  flow f{l, {.concurrency = 2}};
  const permit held = l.try_acquire({.flow = &f}).value();
  const permit other = l.try_acquire({.flow = &f}).value();
  run.go(shown_caller(run, l, "caller", {.flow = &f, .tag = 1}));
  run.time.poll();
  const auto rows = l.waiting(10);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].reason.binds == cause::flow);
  CHECK(rows[0].reason.ceiling == cause::concurrency);
  CHECK(rows[0].estimate == 0s);
  l.stop();
  run.time.run();
}

TEST_CASE("no waiter of the list is promised a longer wait than it has", "[limiter][waiting][flow]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    const bool has_flows = seed % 2 == 0;
    std::mt19937 random{seed};
    const auto any = [&random](unsigned below) { return static_cast<unsigned>(random() % below); };
    limits_run run;
    limiter l{run.io,
              {.rates = {{rate::per_second(10), 3 + any(3)}, {rate::per_second(100), 50, 50, "bytes"}},
               .priorities = 3,
               .ageing = any(3) == 0 ? duration{500ms} : duration::max()}};
    flow_options with_ceiling;
    with_ceiling.rates = {{rate::per_second(3 + any(5)), 1 + any(3)}};
    std::array<std::optional<flow>, 4> flows;  // the last one is none
    if (has_flows) {
      flows[0].emplace(l, flow_options{.weight = 1 + any(4)});
      flows[1].emplace(l, with_ceiling);
      flows[2].emplace(l);
    }
    constexpr unsigned callers = 30;
    std::array<time_point, callers> promised{}, granted{};
    for (unsigned i = 0; i < callers; ++i) {
      const std::optional<flow>& f = flows.at(any(4));
      request r{.priority = static_cast<int>(any(3)), .flow = f ? &*f : nullptr, .tag = i};
      if (any(2) == 0) r.amounts = {{"bytes", any(40)}};
      run.go([&, i, r]() -> net::awaitable<void> {
        const permit p = co_await l.acquire(r);
        granted[i] = run.time.now();
      });
    }
    // Nobody comes later, so each promise holds.
    for (unsigned step = 0; step < 20; ++step) {
      run.time.run_for(step == 0 ? duration{0} : duration{100ms});
      for (const waiting_request& w : l.waiting(callers)) {
        promised[w.tag] = std::max(promised[w.tag], run.time.now() + w.estimate);
      }
    }
    run.time.run();
    for (unsigned i = 0; i < callers; ++i) {
      CAPTURE(seed, i);
      CHECK(promised[i] <= granted[i]);
    }
  }
}

TEST_CASE("where some rise, a waiter counts those above until it rises, and those before it for good",
          "[limiter][waiting]") {
  struct row {
    canigo::duration ageing;
    std::array<canigo::duration, 6> estimates;  // by tag: the odd ones are of the lower class
  };
  for (const auto& [has_flows, wanted] : std::initializer_list<std::pair<bool, row>>{
           {false, {10s, {1s, 4s, 2s, 5s, 3s, 6s}}},
           {true, {10s, {1s, 4s, 2s, 5s, 3s, 6s}}},
           {false, {1500ms, {1s, 2s, 2s, 4s, 3s, 6s}}},
           {true, {1500ms, {1s, 2s, 2s, 4s, 3s, 6s}}},
           {false, {3500ms, {1s, 3500ms, 2s, 4s, 3s, 6s}}},
       }) {
    CAPTURE(has_flows, wanted.ageing);
    limits_run run;
    limiter l{run.io, {.rates = {{rate::per_second(1), 1}}, .priorities = 3, .ageing = wanted.ageing}};
    std::optional<flow> f;
    if (has_flows) f.emplace(l, flow_options{});
    const flow* const of = has_flows ? &*f : nullptr;
    for (std::uint64_t tag = 0; tag < 6; ++tag) {
      const auto priority = static_cast<int>(tag % 2 + 1);
      run.go(shown_caller(run, l, "x", {.priority = priority, .flow = of, .tag = tag}));
    }
    run.time.run_for(1ms);
    for (const waiting_request& w : l.waiting(10)) {
      CAPTURE(w.tag);
      CHECK(w.estimate == wanted.estimates.at(w.tag) - 1ms);
    }
    l.stop();
  }
}
