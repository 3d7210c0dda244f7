// Who is ended when a limit is overloaded.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <memory>
#include <optional>

using namespace canigo;
using namespace std::chrono_literals;

namespace shedding {

constexpr shedding_options codel{.target = 5ms, .interval = 100ms};

auto shed_caller(limits_run& run, auto& s, std::string name, request r = {}, duration hold = 0s) {
  return [&run, &s, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await s.acquire(r, ec);
    run.note(ec == errc::shed ? name + " shed" : ec ? name + "=" + ec.message() : name);
    if (!ec) co_await sleep_for(hold);
  };
}

/// What of the capacity of ten places for 100 ms each reached callers that give up after a second: three times as many
/// come as it can serve, for a minute.
double goodput(const shedding_options& how) {
  limits_run run;
  semaphore s{run.io, {.permits = 10, .shedding = how}};
  std::uint64_t good = 0;
  const auto call = [&]() -> net::awaitable<void> {
    const time_point came = run.time.now();
    std::error_code ec;
    const permit p = co_await s.acquire({}, ec);
    if (ec) co_return;
    co_await sleep_for(100ms);
    if (run.time.now() - came <= 1s) ++good;  // or it has worked for nobody
  };
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 60 * 300; ++i) {
      net::co_spawn(run.io, call, net::detached);
      co_await sleep_for(3'333'333ns);
    }
  });
  run.time.run();
  const auto stats = s.stats();
  CHECK(stats.requested == 60 * 300);
  CHECK(stats.granted + stats.shed == stats.requested);
  return static_cast<double>(good) / (60 * 100);
}

}  // namespace shedding

using shedding::codel;
using shedding::shed_caller;

TEST_CASE("H1: under three times its load a limit that sheds serves callers that still wait", "[shedding]") {
  CHECK(shedding::goodput(codel) >= 0.9);
  CHECK(shedding::goodput({.target = 5ms, .newest_first = true}) >= 0.9);
  CHECK(shedding::goodput({}) < 0.05);
}

TEST_CASE("those that have waited too long are shed, without anything else happening", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = codel}};
  run.go(shed_caller(run, s, "holder", {}, 1s));
  run.time.poll();
  for (const char* name : {"a", "b"}) run.go(shed_caller(run, s, name));
  run.time.run_for(95ms);
  run.go(shed_caller(run, s, "c"));
  run.time.run_for(10ms);
  run.go(shed_caller(run, s, "d"));
  run.time.run();
  // Overloaded from 100 ms on; c waits too long at 105 ms, and d is the last, which stays.
  CHECK(run.log == log_lines{"holder@0", "a shed@100", "b shed@100", "c shed@105", "d@1000"});
  const auto stats = s.stats();
  CHECK(stats.shed == 3);
  CHECK(stats.requested == 5);
  CHECK(stats.rejected == 0);
}

TEST_CASE("a limit that serves one in less than the target now and then sheds nobody", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = codel}};
  for (int i = 0; i < 30; ++i) {
    run.go(shed_caller(run, s, "a", {}, 12ms));
    run.go(shed_caller(run, s, "b", {}, 12ms));
    run.time.run_for(24ms);  // b waits for 12 ms, and then nobody does
  }
  run.time.run();
  CHECK(s.stats().shed == 0);
  CHECK(s.stats().granted == 60);
}

TEST_CASE("a queue that never empties, but moves on soon, sheds nobody for one long call", "[shedding]") {
  for (const bool has_flow : {false, true}) {
    limits_run run;
    semaphore s{run.io, {.permits = 1, .shedding = codel}};
    std::optional<flow> f;
    if (has_flow) f.emplace(s);
    const request r{.flow = f ? &*f : nullptr};
    for (int i = 0; i < 2; ++i) run.go(shed_caller(run, s, "first", r, 2ms));
    for (int i = 0; i < 100; ++i) {
      run.go(shed_caller(run, s, "next", r, i == 80 ? 20ms : 2ms));
      run.time.run_for(2ms);
    }
    CHECK(s.stats().waiting == 10);
    run.time.run();
    CHECK(s.stats().shed == 0);
    CHECK(s.stats().granted == 102);
  }
}

TEST_CASE("the least important class is shed, and the important one only if it is overloaded itself", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 2, .shedding = codel}};
  int shed_of[2] = {};
  int served_of[2] = {};
  const auto call = [&](int priority) -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await s.acquire({.priority = priority}, ec);
    if (ec) CHECK(ec == errc::shed);
    ++(ec ? shed_of : served_of)[priority];
    if (!ec) co_await sleep_for(10ms);
  };
  // 100 are served in a second; 60 of the important class come, and 240 others.
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3000; ++i) {
      net::co_spawn(run.io, call(i % 5 == 0 ? 0 : 1), net::detached);
      co_await sleep_for(3333us);
    }
  });
  run.time.run();
  CHECK(shed_of[0] == 0);
  CHECK(served_of[0] == 600);
  CHECK(shed_of[1] > 1900);
  CHECK(served_of[1] > 350);
}

TEST_CASE("of those to be shed at one instant, the least important go first", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 3, .shedding = codel}};
  run.go(shed_caller(run, s, "holder", {}, 1s));
  run.time.poll();
  for (int c : {0, 1, 2, 0, 1, 2}) run.go(shed_caller(run, s, "c" + std::to_string(c), {.priority = c}));
  run.time.run();
  CHECK(run.log ==
        log_lines{"holder@0", "c2 shed@100", "c2 shed@100", "c1 shed@100", "c1 shed@100", "c0 shed@100", "c0@1000"});
}

TEST_CASE("the last arrival goes first while its class is overloaded", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = {.target = 50ms, .interval = 100ms, .newest_first = true}}};
  run.go(shed_caller(run, s, "holder", {}, 50ms));
  run.time.poll();
  run.go(shed_caller(run, s, "a", {}, 70ms));
  run.time.run_for(40ms);
  for (const char* name : {"b", "c", "d", "e"}) run.go(shed_caller(run, s, name, {}, 15ms));
  run.time.run();
  // At 50 ms it is not overloaded yet; at 100 ms it is. After 140 ms b and c have waited too long, and c is the last.
  CHECK(run.log == log_lines{"holder@0", "a@50", "e@120", "d@135", "b shed@140", "c@150"});
  CHECK(s.stats().shed == 1);
}

TEST_CASE("a newcomer goes at once if it is the next by being the last", "[shedding]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 5}},
             .shedding = {.target = 500ms, .interval = 100ms, .newest_first = true}}};
  run.go(shed_caller(run, l, "heavy", {.tokens = 10}));
  run.time.run_for(150ms);
  CHECK(l.estimate({}) == 0s);
  run.go(shed_caller(run, l, "light"));
  run.time.run();
  CHECK(run.log == log_lines{"light@150", "heavy@600"});
}

TEST_CASE("a flood is shed, and a calm flow beside it is not", "[shedding][flow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = codel}};
  const flow flood{s}, calm{s};
  // A hundred are served in a second; the flood sends three times as many, and the calm flow ten.
  const auto call = [&](const flow& f) -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await s.acquire({.flow = &f}, ec);
    if (!ec) co_await sleep_for(10ms);
  };
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3000; ++i) {
      net::co_spawn(run.io, call(flood), net::detached);
      if (i % 30 == 0) net::co_spawn(run.io, call(calm), net::detached);
      co_await sleep_for(3333us);
    }
  });
  run.time.run();
  CHECK(calm.stats().granted == 100);
  CHECK(calm.stats().failed == 0);
  CHECK(flood.stats().failed > 1900);
  CHECK(flood.stats().granted > 850);
  CHECK(s.stats().shed == flood.stats().failed);
}

TEST_CASE("each flow is shed by its own delays, the least important class of all first", "[shedding][flow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 2, .shedding = codel}};
  run.go(shed_caller(run, s, "holder", {}, 1s));
  run.time.poll();
  run.go(shed_caller(run, s, "before"));
  run.time.poll();
  run.time.run_for(20ms);
  const flow a{s}, b{s};
  run.go(shed_caller(run, s, "a0", {.priority = 0, .flow = &a}));
  run.go(shed_caller(run, s, "b0", {.priority = 0, .flow = &b}));
  run.go(shed_caller(run, s, "a1", {.priority = 1, .flow = &a}));
  run.time.run_for(90ms);
  run.go(shed_caller(run, s, "late", {.flow = &b}));
  run.time.run();
  // Who waited when the first flow came keeps what is known of his delays.
  CHECK(run.log == log_lines{"holder@0", "before shed@100", "a1 shed@120", "a0 shed@120", "b0 shed@120", "late@1000"});
  CHECK(a.stats().failed == 2);
  CHECK(b.stats().failed == 1);
}

TEST_CASE("the last arrival of a flow goes first while the flow is overloaded", "[shedding][flow]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .shedding = {.target = 50ms, .interval = 100ms, .newest_first = true}}};
  const flow a{s, {.weight = 2}}, b{s};
  run.go(shed_caller(run, s, "holder", {}, 95ms));
  run.time.poll();
  for (const char* name : {"a1", "a2"}) run.go(shed_caller(run, s, name, {.flow = &a}, 3ms));
  run.time.run_for(20ms);
  for (const char* name : {"b1", "b2"}) run.go(shed_caller(run, s, name, {.flow = &b}, 3ms));
  run.time.run_for(30ms);
  run.go(shed_caller(run, s, "a3", {.flow = &a}, 3ms));
  run.time.run();
  // At 95 ms nobody is overloaded; from 100 ms on a is, and what it has waited for longest is shed.
  CHECK(run.log == log_lines{"holder@0", "a1@95", "b1@98", "a2 shed@100", "a3@101", "b2@104"});
  CHECK(s.stats().held == 0);
}

TEST_CASE("a limit without shedding sheds nobody, and options out of range are refused", "[shedding]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  run.go(shed_caller(run, s, "holder", {}, 1h));
  for (int i = 0; i < 3; ++i) run.go(shed_caller(run, s, "a"));
  run.time.run();
  CHECK(s.stats().shed == 0);
  CHECK(refusal_of([&] {
          semaphore{run.io, {.shedding = {.target = -1ms}}};
        }).find("semaphore_options.shedding.target is -1ms; allowed: more than 0") == 0);
  CHECK(refusal_of([&] {
          scheduler{run.io, {.rate = rate::per_second(1), .shedding = {.target = 1ms, .interval = 0s}}};
        }).find("scheduler_options.shedding.interval is 0s; allowed: more than 0") == 0);
}

TEST_CASE("a scheduler that sheds keeps its rate", "[shedding]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(100), .shedding = codel}};
  std::vector<duration> granted;
  const auto call = [&]() -> net::awaitable<void> {
    std::error_code ec;
    co_await s.acquire({}, ec);
    if (!ec) granted.push_back(run.time.elapsed());
  };
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3000; ++i) {
      net::co_spawn(run.io, call, net::detached);
      co_await sleep_for(3ms);
    }
  });
  run.time.run();
  REQUIRE(granted.size() >= 890);
  CHECK(granted.size() <= 901);
  for (std::size_t i = 1; i < granted.size(); ++i) REQUIRE(granted[i] - granted[i - 1] >= 10ms);
}
