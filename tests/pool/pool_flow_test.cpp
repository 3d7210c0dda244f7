// Flows of pools: tasks of several tenants share the workers by weight, and each flow has ceilings of its own.
#include "canigo/flow.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace pool_flow_tests {

using namespace canigo;
using namespace std::chrono_literals;

/// An operation that notes its name when it begins, and takes a while.
auto named_operation(limits_run& run, std::string name, duration takes = 100ms) {
  return [&run, name, takes]() -> net::awaitable<void> {
    run.note(name);
    co_await sleep_for(takes);
  };
}

}  // namespace pool_flow_tests

using namespace pool_flow_tests;

TEST_CASE("flows of a pool share its workers three to one, in each class", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1, .priorities = 2}};
  flow gold{pool, {.weight = 3}}, plain{pool};
  const auto post = [&](const char* name, const flow* f, int priority) {
    CHECK(pool.try_post(named_operation(run, name), {.priority = priority, .flow = f}));
  };
  for (int i = 0; i < 4; ++i) post("p", &plain, 0);
  for (int i = 0; i < 8; ++i) post("g", &gold, 0);
  for (int i = 0; i < 4; ++i) post("P", &plain, 1);
  for (int i = 0; i < 4; ++i) post("G", &gold, 1);
  run.time.run();
  CHECK(run.names() ==
        "pgggpgggpggp"
        "PGGGPGPP");
  CHECK(gold.stats().granted == 12);
  CHECK(gold.stats().held == 0);
  CHECK(plain.stats().granted == 8);
  CHECK(plain.stats().failed == 0);
}

TEST_CASE("one flow floods a pool; another's only task goes next", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2, .queue_limit = 20'000}};
  flow flood{pool}, calm{pool};
  for (int i = 0; i < 10'000; ++i) (void)pool.try_post([] { return sleep_for(10ms); }, {.flow = &flood});
  run.time.run_for(1s);
  (void)pool.try_post(named_operation(run, "calm"), {.flow = &calm});
  run.time.run_for(20ms);
  CHECK(run.names() == "calm");
  CHECK(flood.stats().waiting > 9'000);
  pool.request_stop(stop_mode::cancel_all);
  run.time.run();
  CHECK(flood.stats().waiting == 0);
  CHECK(flood.stats().held == 0);
}

TEST_CASE("tasks that were queued before the first flow, or name none, are of the nameless one", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  for (int i = 0; i < 3; ++i) (void)pool.try_post(named_operation(run, "n"));
  run.time.poll();
  flow f{pool, {.weight = 2}};
  for (int i = 0; i < 4; ++i) (void)pool.try_post(named_operation(run, "f"), {.flow = &f});
  (void)pool.try_post(named_operation(run, "n"));
  run.time.run();
  CHECK(run.names() == "nnffnffn");
  CHECK(pool.stats().succeeded == 8);
}

TEST_CASE("a flow at its cap holds up no other, and goes on when one of its tasks ends", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 3}};
  flow capped{pool, {.concurrency = 1}}, free{pool};
  for (int i = 0; i < 3; ++i) (void)pool.try_post(named_operation(run, "c"), {.flow = &capped});
  for (int i = 0; i < 3; ++i) (void)pool.try_post(named_operation(run, "f"), {.flow = &free});
  run.time.run_for(50ms);
  CHECK(capped.stats().held == 1);
  CHECK(capped.stats().waiting == 2);
  CHECK(capped.stats().is_held_back);
  CHECK(free.stats().held == 2);
  CHECK(pool.stats().queued == 3);
  run.time.run();
  CHECK(run.log == log_lines{"c@0", "f@0", "f@0", "c@100", "f@100", "c@200"});
  CHECK(pool.stats().working == 0);
}

TEST_CASE("the tasks of a paused flow wait, and a pool that is idle wakes at its end", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2}};
  flow paused{pool};
  paused.pause_until(run.time.now() + 50ms);
  (void)pool.try_post(named_operation(run, "p", 0s), {.flow = &paused});
  (void)pool.try_post(named_operation(run, "n", 0s));
  run.time.run();
  CHECK(run.log == log_lines{"n@0", "p@50"});
  paused.pause();
  (void)pool.try_post(named_operation(run, "q", 0s), {.flow = &paused});
  run.time.run_for(1s);
  CHECK(paused.stats().waiting == 1);
  paused.extend_pause(run.time.now());
  run.time.run_for(1s);
  CHECK(paused.stats().waiting == 1);
  paused.resume();
  run.time.run();
  CHECK(run.log.back() == "q@2050");
}

TEST_CASE("a flow at its rate is held until it lets it go, and a pool that is idle wakes for it", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 3}};
  flow slow{pool, {.rates = {{rate::per_second(2), 1, 1}}, .times_waits = true}};
  for (int i = 0; i < 3; ++i) (void)pool.try_post(named_operation(run, "s", 0s), {.flow = &slow});
  (void)pool.try_post(named_operation(run, "n", 0s));
  run.time.run();
  CHECK(run.log == log_lines{"s@0", "n@0", "s@500", "s@1000"});
  CHECK(slow.stats().wait->count() == 3);
  CHECK(slow.stats().wait->max() == 1s);
  // Once nobody waits, nothing keeps the loop running.
  auto t = pool.submit(named_operation(run, "t", 0s), {.flow = &slow});
  run.time.run_for(1ms);
  slow.set_rate(0, rate::per_hour(1));
  CHECK(t.cancel());
  run.time.run();
  CHECK(run.ms() < 2000);
  CHECK(slow.stats().failed == 1);
}

TEST_CASE("ceilings of a flow change at once", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 4}};
  flow f{pool, {.rates = {{rate::per_hour(1), 4, 4}}, .concurrency = 1}};
  for (int i = 0; i < 6; ++i) (void)pool.try_post(named_operation(run, "f"), {.flow = &f});
  run.time.run_for(10ms);
  CHECK(run.names() == "f");
  f.set_concurrency(3);
  run.time.run_for(10ms);
  CHECK(run.log == log_lines{"f@0", "f@10", "f@10"});
  run.time.run_for(200ms);
  CHECK(f.stats().granted == 4);  // all tokens are gone
  f.set_rate(0, rate::per_second(100));
  run.time.run_for(30ms);
  CHECK(f.stats().granted == 6);
  f.set_weight(9);
  CHECK(f.stats().weight == 9);
  run.time.run();
}

TEST_CASE("a new rate of a pool's flow counts from now on", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  flow f{pool, {.rates = {{rate::per_second(10), 1000, 0}}}};
  run.time.run_for(1s);
  f.set_rate(0, rate::per_second(500));
  CHECK(f.stats().available == std::vector<std::int64_t>{10});
  run.time.run_for(1s);
  CHECK(f.stats().available == std::vector<std::int64_t>{510});
}

TEST_CASE("a flow's own queue limit makes room among its own, beyond the workers that are about to take them",
          "[pool_flow]") {
  const auto left = [](overflow o) {
    limits_run run;
    strand_pool pool{run.io, {.concurrency = 2, .priorities = 2, .queue_limit = 3, .on_overflow = o}};
    flow small{pool, {.concurrency = 1, .queue_limit = 1}}, large{pool};
    const auto post = [&](const char* name, int priority, const flow& f) {
      return pool.try_post(named_operation(run, name), {.priority = priority, .flow = &f}) ? 'y' : 'n';
    };
    std::string taken;
    taken += post("a", 1, small);  // a worker is about to take it
    taken += post("b", 1, small);
    taken += post("c", 1, small);
    taken += post("d", 0, small);
    taken += post("e", 1, large);
    taken += post("f", 1, large);
    taken += post("g", 1, large);
    const std::uint64_t failed = small.stats().failed;
    run.time.run();
    return taken + " " + run.names() + " " + std::to_string(failed) + " " + std::to_string(pool.stats().evicted);
  };
  CHECK(left(overflow::reject_new) == "yynnyyy aebfg 2 0");
  CHECK(left(overflow::evict_oldest) == "yyyyyyy decfg 2 2");
  CHECK(left(overflow::evict_least_important) == "yynyyyy deafg 2 1");
}

TEST_CASE("two flows do not both count on the same free worker", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2}};
  flow a{pool, {.queue_limit = 1}}, b{pool, {.queue_limit = 1}};
  std::string taken;
  for (const flow* f : {&a, &a, &b, &b, &a, &b}) taken += pool.try_post([] {}, {.flow = f}) ? 'y' : 'n';
  // One task of a goes to the first worker and one to the second, or one of each; b's second has none in any case.
  CHECK(taken == "yyynnn");
  run.time.run();
}

TEST_CASE("free workers take nothing of a flow that is held, so a queue limit counts all of it", "[pool_flow]") {
  const auto taken = [](strand_pool& pool, const task_options& o, int n) {
    int accepted = 0;
    for (int i = 0; i < n; ++i) accepted += pool.try_post([] {}, o) ? 1 : 0;
    return accepted;
  };
  const flow_options by_rate{.rates = {{rate{1, 1h}, 1, 1}}}, of_two{.concurrency = 2};
  limits_run run;
  for (const std::size_t limit_of_pool : {std::size_t{1}, std::size_t{1000}}) {
    strand_pool pool{run.io, {.concurrency = 8, .queue_limit = limit_of_pool}};
    run.time.poll();
    flow_options o = by_rate;
    if (limit_of_pool > 1) o.queue_limit = 1;
    flow f{pool, o};
    CHECK(taken(pool, {.flow = &f}, 30) == 2);  // one goes, and one waits
    run.time.run_for(1ms);
    CHECK(f.stats().waiting == 1);
    CHECK(taken(pool, {.flow = &f}, 30) == 0);
    if (limit_of_pool == 1) CHECK(taken(pool, {}, 30) == 8);  // which all go
    run.time.run();
    CHECK(f.stats().granted == 2);
  }
  strand_pool pool{run.io, {.concurrency = 8, .queue_limit = 1}};
  run.time.poll();
  flow f{pool, of_two};
  CHECK(taken(pool, {.flow = &f}, 30) == 3);
  CHECK(taken(pool, {}, 30) == 6);
  run.time.run();
}

TEST_CASE("a flow's queue limit counts tasks that are delayed", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  run.time.poll();
  flow f{pool, {.queue_limit = 2}};
  const auto post = [&](duration delay) { return pool.try_post([] {}, {.delay = delay, .flow = &f}); };
  for (int round = 0; round < 2; ++round) {
    CHECK(post(1ms));
    CHECK(post(1ms));
    CHECK_FALSE(post(1ms));  // no worker is about to take a delayed one
    CHECK(post(0ms));        // but this one
    CHECK_FALSE(post(0ms));
    CHECK(f.stats().waiting == 1);
    run.time.run();
  }
  auto gone = pool.submit([] { return 1; }, {.delay = 1h, .flow = &f});
  CHECK(post(1h));
  CHECK_FALSE(post(1h));
  CHECK(gone.cancel());
  CHECK(post(1h));
  CHECK(f.stats().failed == 5);
  pool.request_stop(stop_mode::cancel_all);
  run.time.run();
}

TEST_CASE("cancelling, timing out and stopping reach tasks in flows", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  flow f{pool}, g{pool, {.concurrency = 1}};
  auto running = pool.submit(named_operation(run, "r", 1h), {.flow = &g});
  run.time.poll();
  auto cancelled = pool.submit([] { return 1; }, {.flow = &f});
  auto late = pool.submit([] { return 1; }, {.deadline = run.time.now() + 1s, .flow = &g});
  (void)pool.try_post([] {}, {.group = 7, .flow = &f});
  auto stopped = pool.submit([] { return 1; }, {.flow = &g});
  auto delayed = pool.submit([] { return 1; }, {.delay = 1min, .flow = &f});
  run.time.run_for(1ms);
  CHECK(cancelled.cancel());
  CHECK(cancelled.state() == task_state::cancelled);
  CHECK(pool.cancel_group(7) == 1);
  CHECK(f.stats().waiting == 0);
  CHECK(f.stats().failed == 2);
  run.time.run_for(2s);
  CHECK(late.state() == task_state::timed_out);
  CHECK(pool.stats().queued == 1);
  CHECK(pool.stats().queued_by_class.at(0) == 1);
  CHECK(pool.stats().oldest_wait > 2s);
  pool.request_stop(stop_mode::cancel_all);
  run.time.run();
  CHECK(stopped.state() == task_state::stopped);
  CHECK(delayed.state() == task_state::stopped);
  CHECK(running.state() == task_state::cancelled);
  CHECK(g.stats().held == 0);
  CHECK(g.stats().failed == 2);
  CHECK(pool.is_closed());
}

TEST_CASE("a pool drains what is in its flows, held or not", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 3}};
  flow capped{pool, {.concurrency = 1}}, slow{pool, {.rates = {{rate::per_second(1), 1, 1}}}};
  for (int i = 0; i < 3; ++i) {
    (void)pool.try_post(named_operation(run, "c"), {.flow = &capped});
    (void)pool.try_post(named_operation(run, "s"), {.flow = &slow});
  }
  run.time.poll();
  pool.request_stop(stop_mode::drain);
  CHECK_FALSE(pool.try_post([] {}, {.flow = &capped}));
  run.time.run();
  CHECK(run.log == log_lines{"c@0", "s@0", "c@100", "c@200", "s@1000", "s@2000"});
  CHECK(pool.is_closed());
}

TEST_CASE("destroying a flow ends its tasks that wait, and lets the others of it finish", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  std::optional<flow> f{std::in_place, pool};
  flow other{pool};
  int attempts = 0;
  auto running = pool.submit(named_operation(run, "running"), {.flow = &*f});
  run.time.poll();
  auto queued = pool.submit([] { return 1; }, {.flow = &*f});
  auto delayed = pool.submit([] { return 1; }, {.delay = 1s, .flow = &*f});
  (void)pool.try_post(named_operation(run, "other"), {.flow = &other});
  f.reset();
  CHECK(queued.state() == task_state::stopped);
  CHECK(delayed.state() == task_state::stopped);
  run.time.run();
  CHECK(run.names() == "runningother");
  CHECK(running.state() == task_state::succeeded);
  // Of one that fails after its flow has gone there is no other attempt.
  f.emplace(pool);
  auto failing = pool.submit(
      [&attempts]() -> net::awaitable<void> {
        ++attempts;
        co_await sleep_for(100ms);
        throw std::runtime_error{"it failed"};
      },
      {.retry = {.attempts = 5}, .flow = &*f});
  run.time.run_for(10ms);
  f.reset();
  run.time.run();
  CHECK(attempts == 1);
  CHECK(failing.state() == task_state::failed);
  // Its number is used again, by a flow of its own counts.
  const flow next{pool};
  CHECK(next.stats().granted == 0);
}

TEST_CASE("a retry goes back into its flow, behind those that came meanwhile", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 2}};
  flow f{pool, {.concurrency = 1}};
  int attempts = 0;
  auto t = pool.submit(
      [&]() -> net::awaitable<void> {
        run.note("try");
        co_await sleep_for(100ms);
        if (++attempts < 3) throw std::runtime_error{"again"};
      },
      {.retry = {.attempts = 3, .backoff = backoff::constant(0s)}, .flow = &f});
  run.time.poll();
  (void)pool.try_post(named_operation(run, "f"), {.flow = &f});
  (void)pool.try_post(named_operation(run, "f"), {.flow = &f});
  run.time.run();
  CHECK(run.log == log_lines{"try@0", "f@100", "f@200", "try@300", "try@400"});
  CHECK(t.state() == task_state::succeeded);
  CHECK(f.stats().granted == 5);
  CHECK(f.stats().held == 0);
}

TEST_CASE("the workers of a resource_pool serve flows, too", "[pool_flow]") {
  limits_run run;
  resource_pool<int> pool{run.io, {.concurrency = 1, .make = []() -> net::awaitable<int> { co_return 1; }}};
  flow gold{pool, {.weight = 2}}, slow{pool, {.rates = {{rate::per_second(10), 1, 1}}}};
  for (int i = 0; i < 3; ++i) {
    (void)pool.try_post([&](int&) { run.note("s"); }, {.flow = &slow});
    (void)pool.try_post([&](int&) { run.note("g"); }, {.flow = &gold});
  }
  run.time.run_for(1s);
  CHECK(run.log == log_lines{"s@0", "g@0", "g@0", "g@0", "s@100", "s@200"});
}

TEST_CASE("a flow may outlive its pool and its context", "[pool_flow]") {
  std::optional<flow> f, g;
  {
    limits_run run;
    strand_pool kept{run.io, {.concurrency = 1}};
    {
      strand_pool pool{run.io, {.concurrency = 1}};
      f.emplace(pool, flow_options{.rates = {{rate::per_hour(1), 1}}});
      for (int i = 0; i < 3; ++i) (void)pool.try_post([] { return sleep_for(1h); }, {.flow = &*f});
      run.time.run_for(1ms);
    }
    run.time.run();
    CHECK(run.ms() < 1000);  // nothing waits for the hour
    g.emplace(kept, flow_options{.concurrency = 1});
    for (int i = 0; i < 3; ++i) (void)kept.try_post([] { return sleep_for(1h); }, {.flow = &*g});
    run.time.run_for(1ms);
  }
  CHECK(f->stats().waiting == 0);
  CHECK(g->stats().waiting == 0);
  CHECK(g->stats().held == 0);
  g->set_concurrency(unlimited);
  g->set_weight(2);
  f->set_rate(0, rate::per_second(1));
}

TEST_CASE("what a flow of a pool refuses names the field, the value and the range", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 4}}, other{run.io, {.concurrency = 4}};
  strand_pool patient{run.io, {.concurrency = 4, .on_overflow = overflow::wait}};
  semaphore limit{run.io, {.permits = 1}};
  const auto made = [&](const flow_options& o) { return reason_of([&] { const flow f{pool, o}; }); };
  const std::string workers = "; allowed: 1 to 4, the workers of the pool, or unlimited";
  CHECK(made({.weight = 0}) == "flow_options.weight is 0; allowed: 1 to 10000");
  CHECK(made({.concurrency = 0}) == "flow_options.concurrency is 0" + workers);
  CHECK(made({.concurrency = 5}) == "flow_options.concurrency is 5" + workers);
  CHECK(made({.queue_limit = 0}) == "flow_options.queue_limit is 0; allowed: 1 or more");
  CHECK(reason_of([&] { const flow f{patient, {.queue_limit = 9}}; }) ==
        "flow_options.queue_limit is 9; allowed: none, as the pool lets callers wait for room");
  flow mine{pool}, foreign{other}, of_limit{limit};
  CHECK(reason_of([&] { mine.set_concurrency(9); }) == "flow.set_concurrency: concurrency is 9" + workers);
  CHECK(reason_of([&] { mine.set_weight(0); }) == "flow.set_weight: weight is 0; allowed: 1 to 10000");
  CHECK(reason_of([&] { mine.set_rate(0, rate::per_second(1)); }) == "flow.set_rate: index is 0; allowed: less than 0");
  for (const flow* f : {&foreign, &of_limit}) {
    CHECK(reason_of([&] { (void)pool.try_post([] {}, {.flow = f}); }) ==
          "task_options.flow is of another limit or pool; allowed: a flow of this one, or none");
  }
  CHECK(reason_of([&] { (void)limit.try_acquire({.flow = &mine}); }) ==
        "request.flow is of another limit; allowed: a flow of this one, or none");
  CHECK(pool.stats().submitted == 0);
}

TEST_CASE("callers that wait for room go in, by class and arrival, and then share by flow", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
  flow f{pool}, g{pool};
  for (const flow* one : {&f, &f, &f, &g}) {
    const char* name = one == &f ? "f" : "g";
    run.go([&, one, name]() -> net::awaitable<void> {
      net::awaitable<void> operation = pool.run(named_operation(run, name), {.flow = one});
      co_await std::move(operation);
    });
  }
  run.time.run_for(1ms);
  CHECK(pool.stats().held_back == 2);
  run.time.run();
  CHECK(run.names() == "ffgf");
  CHECK(f.stats().failed == 0);
  CHECK(f.stats().granted == 3);
}

// Any tasks, of any flows, on any number of workers: what a flow gets is compared with its bound, and all end once.
TEST_CASE("whatever comes and goes, flows keep their caps, their shares and their counts", "[pool_flow]") {
  for (std::uint32_t seed = 1; seed <= 30; ++seed) {
    CAPTURE(seed);
    std::uint32_t random = seed;
    const auto pick = [&random](std::uint32_t n) {
      random = random * 1664525u + 1013904223u;
      return (random >> 16) % n;
    };
    limits_run run;
    const std::size_t workers = 1 + pick(4);
    strand_pool pool{run.io, {.concurrency = workers, .priorities = 2, .queue_limit = 100'000}};
    struct tenant {
      std::unique_ptr<flow> share;
      std::uint32_t weight;
      std::uint64_t cap;
      std::uint64_t now = 0, most = 0, begun = 0, posted = 0;
    };
    std::vector<tenant> tenants(2 + pick(3));
    for (tenant& t : tenants) {
      t.weight = 1 + pick(5);
      t.cap = pick(2) == 0 ? 1 + pick(static_cast<std::uint32_t>(workers)) : unlimited;
      t.share = std::make_unique<flow>(pool, flow_options{.weight = t.weight, .concurrency = t.cap});
    }
    std::vector<task<void>> tasks;
    const auto submit = [&](tenant& t, bool fails) {
      ++t.posted;
      int left = fails ? 2 : 1;
      const duration takes = duration{1ms} * (1 + pick(20));
      tasks.push_back(pool.submit(
          [&t, takes, left]() mutable -> net::awaitable<void> {
            t.most = std::max(t.most, ++t.now);
            ++t.begun;
            struct end {
              tenant* of;
              ~end() { --of->now; }
            };
            const end at_the_end{&t};
            co_await sleep_for(takes);
            if (--left > 0) throw std::runtime_error{"again"};
          },
          {.priority = static_cast<int>(pick(2)),
           .delay = pick(8) == 0 ? duration{5ms} : duration{0},
           .retry = {.attempts = 3, .backoff = backoff::constant(1ms)},
           .flow = t.share.get()}));
    };
    for (int step = 0; step < 200; ++step) {
      submit(tenants[pick(static_cast<std::uint32_t>(tenants.size()))], pick(5) == 0);
      if (pick(6) == 0) tasks[pick(static_cast<std::uint32_t>(tasks.size()))].cancel();
      if (pick(4) == 0) run.time.run_for(duration{1ms} * pick(30));
      std::uint64_t held = 0;
      for (tenant& t : tenants) {
        const flow_stats s = t.share->stats();
        REQUIRE(s.held == t.now);
        REQUIRE(t.most <= t.cap);
        held += s.held;
      }
      REQUIRE(held <= workers);
      // No worker is idle while a task could run.
      run.time.poll();
      const pool_stats all = pool.stats();
      bool could_run = false;
      for (tenant& t : tenants) {
        const flow_stats s = t.share->stats();
        could_run = could_run || (s.waiting > 0 && s.held < t.cap);
      }
      REQUIRE((all.working == workers || !could_run));
    }
    if (pick(2) == 0) tenants.back().share.reset();
    run.time.run();
    for (const auto& t : tasks) REQUIRE(has_ended(t.state()));
    for (tenant& t : tenants) {
      REQUIRE(t.now == 0);
      if (t.share == nullptr) continue;
      const flow_stats s = t.share->stats();
      REQUIRE(s.held == 0);
      REQUIRE(s.waiting == 0);
      REQUIRE(s.granted == t.begun);
    }
  }
}

TEST_CASE("over any interval in which two flows of a pool compete, their shares differ by no more than a task each",
          "[pool_flow]") {
  for (std::uint32_t one = 1; one <= 7; one += 2) {
    for (std::uint32_t two = 1; two <= 5; two += 2) {
      limits_run run;
      strand_pool pool{run.io, {.concurrency = 1}};
      flow f{pool, {.weight = one}}, g{pool, {.weight = two}};
      for (int i = 0; i < 60; ++i) {
        (void)pool.try_post(named_operation(run, "f", 1ms), {.flow = &f});
        (void)pool.try_post(named_operation(run, "g", 1ms), {.flow = &g});
      }
      run.time.run_for(60ms);  // neither is out of tasks yet
      const std::string order = run.names();
      for (std::size_t from = 0; from < order.size(); ++from) {
        long of_f = 0, of_g = 0;
        for (std::size_t to = from; to < order.size(); ++to) {
          ++(order[to] == 'f' ? of_f : of_g);
          REQUIRE(std::abs(of_f * static_cast<long>(two) - of_g * static_cast<long>(one)) <=
                  static_cast<long>(one + two));
        }
      }
    }
  }
}

TEST_CASE("flows of a pool come and go on any thread while tasks run", "[pool_flow]") {
  net::io_context io;
  auto work = net::make_work_guard(io);
  strand_pool pool{io, {.concurrency = 3, .queue_limit = 100'000}};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { io.run(); });
  std::atomic<int> begun{0}, posted{0};
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 60; ++round) {
        flow f{pool, {.weight = 2, .concurrency = 1}};
        for (int n = 0; n < 20; ++n) {
          posted += pool.try_post([&] { ++begun; }, {.flow = &f}) ? 1 : 0;
          posted += pool.try_post([&] { ++begun; }) ? 1 : 0;
        }
        f.set_concurrency(2);
        (void)f.stats();
      }
    });
  }
  threads[2].join();
  threads[3].join();
  pool.request_stop(stop_mode::drain);
  work.reset();
  threads[0].join();
  threads[1].join();
  const pool_stats s = pool.stats();
  CHECK(s.submitted == static_cast<std::uint64_t>(posted));
  CHECK(s.succeeded == static_cast<std::uint64_t>(begun));
  CHECK(s.succeeded + s.stopped == s.submitted);
}

TEST_CASE("a task of a pool with flows waits from when it came, however long nothing came before", "[pool_flow]") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 1}};
  flow f{pool};
  CHECK(pool.try_post(named_operation(run, "busy ", 10s), {.flow = &f}));
  run.time.run_for(5s);
  const bool is_of_flow = GENERATE(true, false);
  CHECK(pool.try_post(named_operation(run, "waits "), {.flow = is_of_flow ? &f : nullptr}));
  run.time.run_for(1s);
  CHECK(pool.stats().oldest_wait == 1s);
  run.time.run();
  CHECK(run.names() == "busy waits ");
}
