// Limits that let everybody go, and count what they would have done.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/strand.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace shadow_mode {

constexpr enforcement shadow = enforcement::shadow;

auto shadow_caller(limits_run& run, auto& s, std::string name, request r = {}, duration hold = 0s) {
  return [&run, &s, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await s.acquire(r, ec);
    run.note(ec ? name + "=" + ec.message() : name);
    if (!ec) co_await sleep_for(hold);
  };
}

}  // namespace shadow_mode

using namespace shadow_mode;

TEST_CASE("in shadow mode everybody goes at once, and the waits that would have been are counted", "[shadow]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(10), .priorities = 2, .mode = shadow}};
  std::vector<duration> went;
  for (int i = 0; i < 5; ++i) {
    run.go([&]() -> net::awaitable<void> {
      co_await s.acquire(1);
      went.push_back(run.time.elapsed());
    });
  }
  run.time.poll();
  CHECK(went == std::vector<duration>(5, 0s));
  CHECK(s.stats().granted == 5);
  CHECK(s.stats().waiting == 0);
  CHECK(s.stats().requested == 5);
  CHECK(s.stats().shadow.waited == 0);  // they would still wait
  run.time.run_for(250ms);
  CHECK(s.stats().shadow.waited == 2);
  co_spawn(run.io, s.acquire(0), net::detached);  // it would go before the others
  run.time.run();
  const auto counts = s.stats().shadow;
  CHECK(counts.waited == 6);
  CHECK(counts.refused == 0);
  CHECK(counts.wait.count() == 6);
  CHECK(counts.wait.max() == 600ms);
  CHECK(counts.wait.sum().count() == Approx(0.1 + 0.2 + 0.05 + 0.4 + 0.5 + 0.6));
  CHECK(s.stats().classes[1].granted == 5);
}

TEST_CASE("a request that would not have waited counts as granted only", "[shadow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 2, 2}}, .concurrency = 2, .mode = shadow}};
  std::optional<permit> a = l.try_acquire();
  std::optional<permit> b = l.try_acquire();
  CHECK(a);
  CHECK(b);
  CHECK(l.stats().shadow.refused == 0);
  CHECK(l.stats().tokens.front() == 0);
  CHECK(l.stats().held == 2);
}

TEST_CASE("requests that would have been refused go, and are counted", "[shadow]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(1), .burst = 2, .queue_limit = 2, .mode = shadow}};
  int went = 0;
  const auto ask = [&](request r) {
    s.async_acquire(r, [&](std::error_code ec) {
      CHECK_FALSE(ec);
      ++went;
    });
    run.time.poll();
  };
  ask({.deadline = run.time.now() + 900ms});  // can't be met
  CHECK(s.stats().shadow.refused == 1);
  ask({.tokens = 3});  // too large
  CHECK(s.stats().shadow.refused == 2);
  CHECK(s.try_acquire());  // not there
  CHECK(s.stats().shadow.refused == 3);
  ask({});
  ask({});
  CHECK(s.stats().shadow.refused == 3);
  ask({});  // the queue is full
  CHECK(s.stats().shadow.refused == 4);
  CHECK(went == 5);
  CHECK(s.stats().rejected == 0);
  CHECK_THROWS(s.try_acquire({.tokens = 0}));  // nobody could grant that
  CHECK_THROWS(s.try_acquire({.priority = 1}));
  run.time.run();
  CHECK(s.stats().shadow.waited == 2);
}

TEST_CASE("a deadline that would have passed meanwhile counts as refused", "[shadow]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(1), .priorities = 2, .mode = shadow}};
  const auto ask = [&](request r) { co_spawn(run.io, s.acquire(r), net::detached); };
  ask({.priority = 1, .deadline = run.time.now() + 1500ms});
  run.time.run_for(500ms);
  ask({.priority = 0});  // takes the token of 1 s
  ask({.priority = 1});
  run.time.run();
  CHECK(s.stats().shadow.refused == 1);
  CHECK(s.stats().shadow.waited == 2);
  CHECK(s.stats().shadow.wait.max() == 1500ms);  // the last has the token of 2 s
}

TEST_CASE("a place that is free at the very deadline would have been taken", "[shadow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .mode = shadow}};
  std::optional<permit> first = s.try_acquire();
  run.go(shadow_caller(run, s, "a", {.deadline = run.time.now() + 10ms}, 1h));
  run.time.run_for(10ms);
  run.go(shadow_caller(run, s, "b", {}, 1h));  // finds it there, still
  run.time.poll();
  CHECK(s.stats().shadow.refused == 0);
  SECTION("in time") {
    first.reset();
    CHECK(s.stats().shadow.waited == 1);
    CHECK(s.stats().shadow.wait.max() == 10ms);
    run.time.run_for(1ms);
    CHECK(s.stats().shadow.refused == 0);
  }
  SECTION("too late") {
    run.time.run_for(1ns);
    CHECK(s.stats().shadow.refused == 1);
    first.reset();
    CHECK(s.stats().shadow.waited == 1);
    CHECK(s.stats().shadow.wait.max() == 1ns);  // b has it
  }
}

TEST_CASE("a semaphore in shadow mode counts the permits that are out, and who would have waited for one", "[shadow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2, .mode = shadow}};
  for (const char* name : {"a", "b", "c", "d"}) run.go(shadow_caller(run, s, name, {}, 10ms));
  run.time.poll();
  CHECK(run.log == log_lines{"a@0", "b@0", "c@0", "d@0"});
  CHECK(s.stats().held == 4);
  CHECK(s.stats().shadow.waited == 0);
  run.time.run();
  CHECK(s.stats().held == 0);
  CHECK(s.stats().shadow.waited == 2);
  CHECK(s.stats().shadow.wait.max() == 10ms);
  // And it is as good as new.
  for (const char* name : {"e", "f"}) run.go(shadow_caller(run, s, name, {}, 10ms));
  run.time.run();
  CHECK(s.stats().shadow.waited == 2);
  CHECK(s.stats().held == 0);
}

TEST_CASE("a mode is switched while some wait and while some are out", "[shadow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}}, .concurrency = 2}};
  for (const char* name : {"a", "b", "c"}) run.go(shadow_caller(run, l, name, {}, 1s));
  run.time.run_for(50ms);
  CHECK(run.log == log_lines{"a@0"});
  l.set_mode(shadow);
  run.time.poll();
  CHECK(run.log == log_lines{"a@0", "b@50", "c@50"});
  CHECK(l.stats().held == 3);
  CHECK(l.stats().tokens.front() == -2);
  CHECK(l.stats().shadow.waited == 0);
  run.go(shadow_caller(run, l, "d", {}, 1s));
  run.time.run_for(10ms);
  CHECK(run.log.back() == "d@50");
  CHECK(l.stats().held == 4);

  l.set_mode(enforcement::enforce);
  run.go(shadow_caller(run, l, "e"));
  run.time.run_for(900ms);
  CHECK(run.log.back() == "d@50");
  CHECK(l.why_waiting().binds == wait_reason::cause::concurrency);
  run.time.run();
  CHECK(run.log.back() == "e@1050");  // three have left by then
  CHECK(l.stats().held == 0);
  CHECK(l.stats().requested == l.stats().granted);
}

TEST_CASE("in shadow mode a pause delays nobody, and shedding ends nobody", "[shadow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = {.target = 5ms, .interval = 100ms}, .mode = shadow}};
  s.pause_until(run.time.now() + 50ms);
  for (const char* name : {"a", "b", "c"}) run.go(shadow_caller(run, s, name, {}, 500ms));
  run.time.run_for(200ms);
  CHECK(run.log == log_lines{"a@0", "b@0", "c@0"});
  // One is let in at the end of the pause; of the others one is shed, and one stays as the last.
  CHECK(s.stats().shadow.waited == 1);
  CHECK(s.stats().shadow.shed == 1);
  CHECK(s.stats().shed == 0);
  run.time.run();
  CHECK(s.stats().shadow.waited == 2);
  CHECK(s.stats().held == 0);
}

TEST_CASE("units are counted in shadow mode, too", "[shadow]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 1000, "tokens"}},
             .mode = shadow}};
  permit p = l.try_acquire({.amounts = {{"tokens", 1000}}}).value();
  run.go([&]() -> net::awaitable<void> {
    permit q = co_await l.acquire({.amounts = {{"tokens", 500}}});
    CHECK(run.ms() == 0);
    q.settle("tokens", 400);
  });
  run.time.run();
  CHECK(l.stats().shadow.waited == 1);
  CHECK(l.stats().shadow.wait.max() == 400ms);  // 100 came back at once
  CHECK(refusal_of([&] { (void)l.try_acquire({.amounts = {{"bytes", 1}}}); }).find("request.amounts[0].unit") == 0);
  CHECK(l.try_acquire({.amounts = {{"tokens", 5000}}}));
  CHECK(l.stats().shadow.refused == 1);
}

TEST_CASE("a limit that has been in shadow mode has flows and keeps its bounds", "[shadow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}}, .concurrency = 1, .mode = enforcement::shadow}};
  for (int i = 0; i < 3; ++i) (void)l.try_acquire();
  l.set_mode(enforcement::enforce);
  const flow a{l, {.weight = 3}};
  int granted = 0;
  for (int i = 0; i < 4; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const permit p = co_await l.acquire({.flow = i % 2 == 0 ? &a : nullptr});
      ++granted;
    });
  }
  run.time.run_for(250ms);
  CHECK(granted == 2);  // one from the start, or each tenth of a second
  run.time.run();
  CHECK(granted == 4);
  CHECK(l.stats().held == 0);
}

TEST_CASE("in shadow mode a flow's requests go at once, and its ceilings and share count", "[shadow][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}}, .mode = shadow}};
  const flow trial{l, {.rates = {{rate::per_second(2)}}, .queue_limit = 2}};
  for (int i = 0; i < 4; ++i) run.go(shadow_caller(run, l, "t", {.flow = &trial}));
  run.time.poll();
  for (int i = 0; i < 2; ++i) run.go(shadow_caller(run, l, "o"));
  run.time.poll();
  CHECK(run.log == log_lines{"t@0", "t@0", "t@0", "t@0", "o@0", "o@0"});
  // Two of the trial would have waited for its own rate, and two found its queue full. Of the others one went.
  CHECK(l.stats().shadow.refused == 2);
  CHECK(l.stats().waiting == 0);
  flow_stats s = trial.stats();
  CHECK(s.granted == 4);
  CHECK(s.waiting == 0);
  CHECK(s.failed == 0);
  CHECK_FALSE(s.is_held_back);
  run.time.run();
  CHECK(l.stats().shadow.waited == 3);
  CHECK(l.stats().shadow.wait.max() == 1s);
  CHECK(trial.stats().granted == 4);
}

TEST_CASE("in shadow mode a flow's own rate is asked as of now", "[shadow][flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(100), 100, 100}}, .mode = shadow}};
  const flow trial{l, {.rates = {{rate::per_second(1), 1, 1}}}};
  for (int i = 0; i < 3; ++i) {
    CHECK(l.try_acquire({.flow = &trial}));
    run.time.run_for(1s);
  }
  CHECK(l.stats().shadow.refused == 0);
  CHECK(l.try_acquire({.flow = &trial}));
  CHECK(l.try_acquire({.flow = &trial}));
  CHECK(l.stats().shadow.refused == 1);
}

TEST_CASE("in shadow mode one that would have waited takes as many tokens and places as it asked for", "[shadow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 5, 0}}, .concurrency = 5, .priorities = 2, .mode = shadow}};
  run.go(shadow_caller(run, l, "heavy", {.priority = 1, .tokens = 4}));
  run.time.run_for(50ms);
  run.go(shadow_caller(run, l, "first", {.tokens = 2}));  // goes before it
  run.time.run_for(200ms);
  CHECK(l.stats().shadow.waited == 1);
  CHECK(l.stats().shadow.wait.max() == 150ms);
  run.time.run();
  CHECK(l.stats().shadow.waited == 2);
  CHECK(l.stats().shadow.wait.max() == 600ms);
  CHECK(l.stats().tokens.front() == 0);
}

TEST_CASE("a limit with flows goes into shadow mode and back, and each flow keeps its cap", "[shadow][flow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  const flow a{s, {.concurrency = 1}};
  for (const char* name : {"a", "b", "c"}) run.go(shadow_caller(run, s, name, {.flow = &a}, 1s));
  run.time.run_for(500ms);
  CHECK(run.log == log_lines{"a@0"});
  s.set_mode(shadow);
  run.time.poll();
  CHECK(run.log == log_lines{"a@0", "b@500", "c@500"});
  CHECK(s.stats().held == 3);
  CHECK(a.stats().held == 3);
  run.go(shadow_caller(run, s, "d", {.flow = &a}, 1s));
  run.time.poll();
  CHECK(run.log.back() == "d@500");
  s.set_mode(enforcement::enforce);
  CHECK(a.stats().held == 4);
  run.go(shadow_caller(run, s, "e", {.flow = &a}, 1s));
  run.time.run_for(800ms);
  CHECK(run.log.back() == "d@500");
  CHECK(a.stats().is_held_back);
  run.time.run();
  CHECK(run.log.back() == "e@1500");  // all that were let go have left by then
  CHECK(a.stats().held == 0);
  CHECK(s.stats().held == 0);
}

TEST_CASE("a flow that goes in shadow mode takes its phantoms along, and its permits stay good", "[shadow][flow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .mode = shadow}};
  std::vector<permit> held;
  {
    const flow a{s};
    for (int i = 0; i < 3; ++i) held.push_back(s.try_acquire({.flow = &a}).value());
    run.go([&]() -> net::awaitable<void> { held.push_back(co_await s.acquire({.flow = &a})); });
    run.time.poll();
    CHECK(a.stats().held == 4);
  }
  CHECK(s.stats().shadow.refused == 2);
  CHECK(s.stats().shadow.waited == 0);
  const flow b{s, {.concurrency = 1}};
  run.go(shadow_caller(run, s, "b", {.flow = &b}));
  run.time.poll();
  CHECK(run.log == log_lines{"b@0"});
  held.clear();
  run.time.run();
  CHECK(s.stats().shadow.waited == 1);
  CHECK(s.stats().held == 0);
  CHECK(b.stats().held == 0);
}

TEST_CASE("a limiter in shadow mode can be stopped, destroyed and outlived", "[shadow]") {
  auto run = std::make_unique<limits_run>();
  auto l = std::make_unique<limiter>(run->io, limiter_options{.concurrency = 1, .mode = shadow});
  std::vector<permit> held;
  run->go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3; ++i) held.push_back(co_await l->acquire());
  });
  run->time.poll();
  REQUIRE(held.size() == 3);
  l->stop();
  CHECK_FALSE(l->try_acquire());
  CHECK(l->stats().shadow.refused == 0);
  l.reset();
  held.pop_back();

  l = std::make_unique<limiter>(run->io, limiter_options{.rates = {{rate::per_hour(1)}}, .mode = shadow});
  run->go([&]() -> net::awaitable<void> { held.push_back(co_await l->acquire()); });
  run->time.poll();
  CHECK(held.size() == 3);
  run.reset();  // with a phantom in the queue
  l.reset();
  held.clear();
}

TEST_CASE("modes that are none, and shadow mode with a share, are refused", "[shadow]") {
  limits_run run;
  const shared_cap cap{{.permits = 1}};
  CHECK(refusal_of([&] {
          limiter{run.io, {.share = cap, .mode = shadow}};
        }).find("limiter_options.mode is shadow; allowed: enforce, because places are shared") == 0);
  limiter l{run.io, {.share = cap}};
  CHECK(refusal_of([&] {
          l.set_mode(shadow);
        }).find("set_mode: mode is shadow; allowed: enforce, because places are shared") == 0);
  semaphore s{run.io, {}};
  CHECK(refusal_of([&] {
          s.set_mode(static_cast<enforcement>(7));
        }).find("set_mode: mode is 7; allowed: enforce, shadow") == 0);
  CHECK(refusal_of([&] {
          semaphore{run.io, {.mode = static_cast<enforcement>(7)}};
        }).find("semaphore_options.mode is 7; allowed: enforce, shadow") == 0);
  s.set_mode(enforcement::enforce);
  const auto held = s.try_acquire();
  CHECK(held);
  CHECK_FALSE(s.try_acquire());
}
