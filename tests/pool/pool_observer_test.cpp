#include "canigo/pool.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <stdexcept>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

namespace {

struct recorder final : pool_observer {
  std::vector<std::string> seen;
  void attempt_started(const task_event& e) noexcept override { note("start", e); }
  void task_ended(const task_event& e) noexcept override { note("end", e); }
  void note(const char* what, const task_event& e) {
    seen.push_back(std::string{what} + ' ' + std::string{e.name} + ' ' + std::to_string(e.attempt) + ' ' +
                   std::string{to_string(e.state)} + ' ' + std::to_string(e.waited / 1ms) + ' ' +
                   std::to_string(e.ran / 1ms));
  }
};

}  // namespace

TEST_CASE("an observer sees every attempt and every end, with names and times") {
  bench_top b;
  recorder r;
  {
    strand_pool pool{b.io, {.concurrency = 1, .observer = &r}};
    (void)pool.try_post([] { return sleep_for(20ms); }, {.name = "long"});
    (void)pool.try_post([] { throw std::runtime_error{"no"}; },
                        {.name = "bad", .retry = {.attempts = 2, .backoff = backoff::constant(5ms)}});
    auto t = pool.submit([] {}, {.delay = 1h, .name = "late"});
    b.time.run_for(100ms);
    t.cancel();
    (void)pool.try_post([] {});
    b.time.run();
  }
  CHECK(r.seen == std::vector<std::string>{"start long 1 running 0 0", "end long 1 succeeded 0 20",
                                           "start bad 1 running 20 0", "start bad 2 running 0 0",
                                           "end bad 2 failed 0 0", "end late 0 cancelled 0 0", "start  1 running 0 0",
                                           "end  1 succeeded 0 0"});
}

TEST_CASE("an observer of a task that is told before its operation ends sees how long that has run") {
  bench_top b;
  recorder r;
  strand_pool pool{b.io, {.concurrency = 1, .observer = &r}};
  (void)pool.try_post([](task_context&) { return stubborn(300ms); }, {.timeout = 50ms, .name = "stuck"});
  b.time.run();
  CHECK(r.seen == std::vector<std::string>{"start stuck 1 running 0 0", "end stuck 1 timed_out 0 50"});
}

TEST_CASE("an observer of a pool with resources sees the same, and may stop the pool") {
  bench_top b;
  recorder r;
  {
    resource_pool<int> pool{b.io, {.concurrency = 1, .observer = &r, .make = [] { return 1; }}};
    (void)pool.try_post([](int&, task_context&) { return sleep_for(20ms); }, {.name = "long"});
    b.time.run();
  }
  CHECK(r.seen == std::vector<std::string>{"start long 1 running 0 0", "end long 1 succeeded 0 20"});

  struct stopper final : pool_observer {
    strand_pool* pool = nullptr;
    int seen = 0;
    void task_ended(const task_event& e) noexcept override {
      ++seen;
      if (e.state == task_state::failed) pool->request_stop(stop_mode::cancel_all);
    }
  };
  // A worker is parked while it runs a short one, and has yet to be after a long one.
  for (const bool is_long : {false, true}) {
    stopper at_a_failure;
    strand_pool pool{
        b.io, {.concurrency = 1, .restart = {.limit = 5, .backoff = backoff::constant(1h)}, .observer = &at_a_failure}};
    at_a_failure.pool = &pool;
    const fatal_error cause{"the worker is to rest"};
    if (is_long) {
      (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
        co_await sleep_for(0s);
        throw cause;
      });
    } else {
      (void)pool.try_post([&] { throw cause; });
    }
    auto next = pool.submit([] {});
    b.time.run();
    CHECK(pool.is_closed());
    CHECK(next.state() == task_state::stopped);
    CHECK(at_a_failure.seen == 2);
    next = pool.submit([] {});
    CHECK(next.state() == task_state::stopped);
    CHECK(at_a_failure.seen == 2);  // what was refused was never there
    CHECK(b.ms() == 20);
  }
}

TEST_CASE("an observer learns which task it is, of which group and class") {
  bench_top b;
  struct identities final : pool_observer {
    std::vector<std::string> seen;
    void attempt_started(const task_event& e) noexcept override { note(e); }
    void task_ended(const task_event& e) noexcept override { note(e); }
    void note(const task_event& e) {
      seen.push_back(std::to_string(e.id) + ": group " + std::to_string(e.group) + ", class " +
                     std::to_string(e.priority));
    }
  } who;
  strand_pool pool{b.io, {.concurrency = 1, .priorities = 3, .observer = &who}};
  const auto grouped = pool.submit([] {}, {.priority = 2, .group = 77});
  const auto alone = pool.submit([] {}, {.priority = 1});
  b.time.run();
  const std::string first = std::to_string(alone.id()) + ": group 0, class 1";
  const std::string second = std::to_string(grouped.id()) + ": group 77, class 2";
  CHECK(who.seen == std::vector{first, first, second, second});
}

TEST_CASE("an observer need not look at everything") {
  bench_top b;
  struct ends final : pool_observer {
    int seen = 0;
    void task_ended(const task_event&) noexcept override { ++seen; }
  } only_ends;
  struct attempts final : pool_observer {
    int seen = 0;
    void attempt_started(const task_event&) noexcept override { ++seen; }
  } only_attempts;
  strand_pool one{b.io, {.concurrency = 1, .observer = &only_ends}};
  strand_pool other{b.io, {.concurrency = 1, .observer = &only_attempts}};
  for (strand_pool* pool : {&one, &other}) (void)pool->try_post([] {});
  b.time.run();
  CHECK(only_ends.seen == 1);
  CHECK(only_attempts.seen == 1);
}
