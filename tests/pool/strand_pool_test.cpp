#include "canigo/strand_pool.hpp"

#include "canigo/cancel.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"
#include "support/sanitized.hpp"

#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

TEST_CASE("P1 a hundred operations of 20 ms, ten at once, take 200 ms") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 10}};
  int now = 0, peak = 0;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(pool.try_post([&](task_context&) -> net::awaitable<void> {
      peak = std::max(peak, ++now);
      co_await sleep_for(20ms);
      --now;
    }));
  }
  b.time.run();
  CHECK(peak == 10);
  CHECK(b.ms() == 200);
  CHECK(pool.stats().sleeping == 10);
  adds_up(pool.stats());
}

TEST_CASE("P1 the same in real time", "[realtime]") {
  // Never early by more than 1 ms. Late by 20 ms at most, 50 ms with a sanitizer, unless the machine is busy elsewhere:
  // one of many runs has to keep to that.
  constexpr auto late = is_sanitized ? 50ms : 20ms;
  bool in_time = false;
  for (int attempt = 0; attempt < 50 && !in_time; ++attempt) {
    net::io_context io;
    strand_pool pool{io, {.concurrency = 10}};
    int now = 0, peak = 0;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) {
      (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
        peak = std::max(peak, ++now);
        co_await sleep_for(20ms);
        --now;
      });
    }
    io.run();  // returns although the pool is still there
    const auto took = std::chrono::steady_clock::now() - start;
    CHECK(peak == 10);
    CHECK(took >= 199ms);
    in_time = took <= 200ms + late;
  }
  CHECK(in_time);
}

TEST_CASE("P2 a post never blocks and none is lost") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3, .queue_limit = 200'000}};
  std::uint64_t sum = 0;
  for (std::uint64_t i = 1; i <= 100'000; ++i) REQUIRE(pool.try_post([&sum, i] { sum += i; }));
  b.time.run();
  CHECK(sum == 5'000'050'000u);
  CHECK(pool.stats().succeeded == 100'000);
}

TEST_CASE("P3 workers that become free at the same instant are all refilled") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3, .queue_limit = 5000}};
  int now = 0;
  for (int i = 0; i < 3000; ++i) {
    (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
      ++now;
      co_await sleep_for(1ms);
      --now;
    });
  }
  for (int i = 0; i < 999; ++i) {
    b.time.run_for(1ms);
    REQUIRE(now == 3);
  }
  b.time.run();
  CHECK(b.ms() == 1000);
}

TEST_CASE("P4 a full queue refuses, or holds the producer back") {
  bench_top b;
  auto slow = [](task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); };
  SECTION("reject_new") {
    strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 2}};
    CHECK(pool.try_post(slow));
    CHECK(pool.try_post(slow));
    CHECK(pool.try_post(slow));
    CHECK_FALSE(pool.try_post(slow));
    auto t = pool.submit([] {});
    CHECK(t.state() == task_state::failed);
    std::error_code ec;
    b.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(pool.run([] {})); });
    b.time.run();
    CHECK(ec == errc::queue_full);
    CHECK(pool.stats().rejected == 3);
    CHECK(pool.stats().submitted == 3);
  }
  SECTION("wait") {
    strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
    (void)pool.try_post(slow);
    (void)pool.try_post(slow);
    CHECK_FALSE(pool.try_post(slow));
    std::error_code held, cancelled;
    long done = 0;
    cancel_source stop;
    b.spawn([&]() -> net::awaitable<void> { cancelled = co_await outcome_of(stop.wrap(pool.run(slow))); });
    b.spawn([&]() -> net::awaitable<void> {
      held = co_await outcome_of(pool.run([] {}));
      done = b.ms();
    });
    b.time.run_for(50ms);
    CHECK(pool.stats().held_back == 2);
    adds_up(pool.stats());
    stop.cancel();
    b.time.run_for(1ms);
    CHECK(cancelled == net::error::operation_aborted);
    CHECK(pool.stats().held_back == 1);
    b.time.run();
    CHECK(!held);
    CHECK(done == 200);
    CHECK(pool.stats().cancelled == 1);
    adds_up(pool.stats());
  }
  SECTION("evict_oldest") {
    strand_pool pool{b.io,
                     {.concurrency = 1, .priorities = 2, .queue_limit = 2, .on_overflow = overflow::evict_oldest}};
    (void)pool.try_post(slow);
    b.time.poll();
    auto oldest = pool.submit([] {}, {.priority = 0});
    auto next = pool.submit([] {}, {.priority = 1});
    CHECK(pool.try_post([] {}, {.priority = 1}));
    CHECK(oldest.state() == task_state::failed);
    CHECK(next.state() == task_state::queued);
    std::error_code ec;
    b.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(oldest.result()); });
    b.time.run();
    CHECK(ec == errc::evicted);
    CHECK(pool.stats().evicted == 1);
    adds_up(pool.stats());
  }
  SECTION("evict_least_important") {
    strand_pool pool{
        b.io, {.concurrency = 1, .priorities = 2, .queue_limit = 1, .on_overflow = overflow::evict_least_important}};
    (void)pool.try_post(slow);
    b.time.poll();
    auto low = pool.submit([] {}, {.priority = 1});
    CHECK_FALSE(pool.try_post([] {}, {.priority = 1}));
    CHECK(pool.try_post([] {}, {.priority = 0}));
    CHECK(low.state() == task_state::failed);
    b.time.run();
    CHECK(pool.stats().evicted == 1);
    adds_up(pool.stats());
  }
}

TEST_CASE("P5 options out of range are refused by name") {
  net::io_context io;
  const auto text = [&](strand_pool_options o) -> std::string {
    try {
      strand_pool pool{io, o};
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return e.what();
    }
    return "";
  };
  CHECK(text({.concurrency = 0}).find("concurrency is 0") != std::string::npos);
  CHECK(text({.concurrency = 100'001}).find("concurrency is 100001; allowed: 1 to 100000") != std::string::npos);
  CHECK(text({.concurrency = 1, .queue_limit = 0}).find("queue_limit is 0") != std::string::npos);
  CHECK(text({.concurrency = 1, .priorities = 0}).find("priorities is 0") != std::string::npos);
  CHECK(text({.concurrency = 1, .priorities = 1025}).find("priorities is 1025") != std::string::npos);
  CHECK(text({.concurrency = 1, .restart = {.limit = 10'001}}).find("restart.limit is 10001") != std::string::npos);
  CHECK(text({.concurrency = 1, .restart = {.within = 0s}}).find("restart.within is 0s") != std::string::npos);
  CHECK(text({.concurrency = 1, .timeout = 0s}).find("timeout is 0s") != std::string::npos);
  CHECK(text({.concurrency = 1, .on_overflow = static_cast<overflow>(4)}).find("on_overflow is 4") !=
        std::string::npos);
  CHECK(text({.concurrency = 1, .retry = {.backoff = {.first = -1s}}}).find("retry.backoff.first is -1s") !=
        std::string::npos);
  CHECK(text({.concurrency = 1, .restart = {.backoff = {.cap = 1s, .min = 2s}}}).find("restart.backoff.min is 2s") !=
        std::string::npos);
  strand_pool pool{io, {.concurrency = 1}};
  CHECK_THROWS_AS(pool.try_post([] {}, {.priority = 1}), std::system_error);
  CHECK_THROWS_AS(pool.try_post([] {}, {.priority = -1}), std::system_error);
  CHECK_THROWS_AS(pool.submit([] {}, {.timeout = -1s}), std::system_error);
  CHECK_THROWS_AS(pool.submit([] {}, {.timeout = 0s}), std::system_error);
  CHECK_THROWS_AS(pool.submit([] {}, {.delay = -1s}), std::system_error);
  CHECK_THROWS_AS(pool.submit([] {}, {.retry = {.attempts = 2, .backoff = {.min = -1s}}}), std::system_error);
  for (const int none : {0, 4}) {
    CHECK_THROWS_AS(pool.request_stop(static_cast<stop_mode>(none)), std::system_error);
    CHECK_THROWS_AS(pool.stop(static_cast<stop_mode>(none)), std::system_error);
  }
  CHECK(pool.try_post([] {}));
  CHECK_THROWS_AS(pool.resize(0), std::system_error);
  CHECK_THROWS_AS(pool.resize(100'001), std::system_error);
}

TEST_CASE("P5 an operation that try_post refuses is still its owner's") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1}};
  std::vector<int> ran;
  const auto make = [&](int n) { return [&ran, owned = std::make_unique<int>(n)] { ran.push_back(*owned); }; };
  while (pool.try_post(make(1))) {
  }
  auto lambda = make(2);
  std::function<void()> function = [&, text = std::string(100, 'x')] { ran.push_back(static_cast<int>(text.size())); };
  CHECK_FALSE(pool.try_post(std::move(lambda)));
  CHECK_FALSE(pool.try_post(std::move(function)));
  b.time.run();
  ran.clear();
  CHECK(pool.try_post(std::move(lambda)));
  b.time.run();
  CHECK(pool.try_post(std::move(function)));
  b.time.run();
  CHECK(ran == std::vector<int>{2, 100});
}

TEST_CASE("P6 a failed operation is tried again after the backoff, others use the worker meanwhile") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::vector<long> starts, others;
  std::error_code ec;
  int attempts_seen = 0;
  b.spawn([&]() -> net::awaitable<void> {
    ec = co_await outcome_of(pool.run(
        [&](task_context& t) {
          starts.push_back(b.ms());
          attempts_seen = static_cast<int>(t.attempt());
          throw std::system_error{std::error_code{static_cast<int>(starts.size()), std::generic_category()}};
        },
        {.retry = {.attempts = 3, .backoff = backoff::constant(100ms)}}));
  });
  b.time.poll();
  (void)pool.try_post([&] { others.push_back(b.ms()); });
  b.time.run();
  CHECK(starts == std::vector<long>{0, 100, 200});
  CHECK(others == std::vector<long>{0});
  CHECK(attempts_seen == 3);
  CHECK(ec.value() == 3);
  CHECK(pool.stats().retries == 2);
  CHECK(pool.stats().failed == 1);
  adds_up(pool.stats());
}

TEST_CASE("P7 delayed tasks run when they are due") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::vector<std::pair<int, long>> ran;
  (void)pool.try_post([&] { ran.emplace_back(1, b.ms()); }, {.delay = 300ms});
  auto t = pool.submit([&] { ran.emplace_back(2, b.ms()); }, {.delay = 100ms});
  CHECK(t.state() == task_state::delayed);
  CHECK(pool.stats().delayed == 2);
  b.time.run();
  CHECK(ran == std::vector<std::pair<int, long>>{{2, 100}, {1, 300}});
}

TEST_CASE("P8 an operation over its time that heeds the cancellation has timed out") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::error_code ec;
  long told = 0, next = 0;
  bool unwound_before = false, unwound = false;
  b.spawn([&]() -> net::awaitable<void> {
    struct note {
      bool& b;
      ~note() { b = true; }
    };
    ec = co_await outcome_of(pool.run(
        [&](task_context&) -> net::awaitable<void> {
          const note n{unwound};
          co_await sleep_for(1h);
        },
        {.timeout = 50ms}));
    unwound_before = unwound;
    told = b.ms();
  });
  b.time.poll();
  (void)pool.try_post([&] { next = b.ms(); });
  b.time.run();
  CHECK(ec == errc::timed_out);
  CHECK(told == 50);
  CHECK(unwound_before);
  CHECK(next == 50);
  CHECK(pool.stats().timed_out == 1);
  CHECK(pool.stats().overdue_total == 0);
  CHECK(b.ms() == 50);
}

TEST_CASE("P9 P10 an operation that ignores its cancellation keeps its slot, and its caller is told in time") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::error_code ec;
  long told = 0, next = 0;
  auto t = pool.submit([](task_context&) { return stubborn(300ms); }, {.timeout = 50ms, .name = "stuck"});
  b.spawn([&]() -> net::awaitable<void> {
    ec = co_await outcome_of(t.result());
    told = b.ms();
  });
  (void)pool.try_post([&] { next = b.ms(); });
  b.time.run_for(60ms);
  CHECK(ec == errc::timed_out);
  CHECK(told == 50);
  CHECK(t.state() == task_state::timed_out);
  const pool_stats s = pool.stats();
  CHECK(s.working == 1);
  REQUIRE(s.overdue.size() == 1);
  CHECK(s.overdue[0].id == t.id());
  CHECK(s.overdue[0].name == "stuck");
  CHECK(s.overdue[0].age == 60ms);
  CHECK(s.overdue_total == 1);
  b.time.run();
  CHECK(next == 300);
  CHECK(pool.stats().overdue.empty());
  CHECK(pool.stats().working == 0);
  adds_up(pool.stats());
}

TEST_CASE("P10 an operation without a timeout takes its time") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto t = pool.submit([](task_context& c) -> net::awaitable<int> {
    CHECK(c.deadline() == time_point::max());
    co_await sleep_for(24h);
    co_return 5;
  });
  b.time.run();
  CHECK(t.state() == task_state::succeeded);
}

namespace {

struct five_of_100ms : bench_top {
  strand_pool pool{io, {.concurrency = 1}};
  std::vector<task<void>> tasks;
  stop_report report;
  long done = -1;

  five_of_100ms() {
    for (int i = 0; i < 5; ++i)
      tasks.push_back(pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); }));
    time.run_for(20ms);
  }
  void stop(stop_mode mode, duration grace = duration::max()) {
    spawn([this, mode, grace]() -> net::awaitable<void> {
      report = co_await pool.stop(mode, grace);
      done = ms();
    });
    time.poll();
  }
  std::vector<task_state> states() const {
    std::vector<task_state> s;
    for (const auto& t : tasks) s.push_back(t.state());
    return s;
  }
};

}  // namespace

TEST_CASE("P11 drain runs all that is queued") {
  five_of_100ms f;
  f.stop(stop_mode::drain);
  CHECK_FALSE(f.pool.try_post([] {}));
  f.time.run();
  CHECK(f.done == 500);
  CHECK(f.report.succeeded == 5);
  CHECK(f.report.submitted == 5);
  CHECK(f.pool.is_closed());
}

TEST_CASE("P12 finish_running ends what is queued at once") {
  five_of_100ms f;
  f.stop(stop_mode::finish_running);
  CHECK(f.states() == std::vector<task_state>{task_state::running, task_state::stopped, task_state::stopped,
                                              task_state::stopped, task_state::stopped});
  f.time.run();
  CHECK(f.done == 100);
  CHECK(f.report.succeeded == 1);
  CHECK(f.report.stopped == 4);
  adds_up(f.report);
}

TEST_CASE("P13 what still runs after the grace is cancelled") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto t = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(700ms); });
  b.time.run_for(50ms);
  stop_report report;
  long done = 0;
  b.spawn([&]() -> net::awaitable<void> {
    report = co_await pool.stop(stop_mode::finish_running, 200ms);
    done = b.ms();
  });
  b.time.run();
  CHECK(done == 250);
  CHECK(report.escalated == 1);
  CHECK(report.cancelled == 1);
  CHECK(t.state() == task_state::cancelled);
  adds_up(report);
}

TEST_CASE("P13 a drain has a grace, too: then what runs is cancelled, and what is queued is stopped") {
  five_of_100ms f;
  f.stop(stop_mode::drain, 250ms);
  f.time.run();
  CHECK(f.done == 270);
  CHECK(f.states() == std::vector<task_state>{task_state::succeeded, task_state::succeeded, task_state::cancelled,
                                              task_state::stopped, task_state::stopped});
  CHECK(f.report.escalated == 1);
  adds_up(f.report);
}

TEST_CASE("P13 of several graces the one counts that is over first, whatever the mode that came with it") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto t = pool.submit([](task_context&) { return sleep_for(1h); });
  const auto [first, second] = GENERATE(std::pair{stop_mode::drain, stop_mode::finish_running},
                                        std::pair{stop_mode::finish_running, stop_mode::drain});
  b.time.poll();
  pool.request_stop(first, 10s);
  pool.request_stop(second, 2s);
  pool.request_stop(second, 20s);
  pool.request_stop(first);
  b.time.run();
  CHECK(b.ms() == 2000);
  CHECK(t.state() == task_state::cancelled);
}

TEST_CASE("P14 cancel_all ends all at once") {
  five_of_100ms f;
  f.stop(stop_mode::cancel_all);
  CHECK(f.done == 20);
  CHECK(f.states() == std::vector<task_state>{task_state::cancelled, task_state::stopped, task_state::stopped,
                                              task_state::stopped, task_state::stopped});
  adds_up(f.report);
}

TEST_CASE("P15 submit and stats are answered during any stop") {
  for (const auto mode : {stop_mode::drain, stop_mode::finish_running, stop_mode::cancel_all}) {
    five_of_100ms f;
    f.pool.request_stop(mode);
    const auto t = f.pool.submit([] {});
    CHECK(t.state() == task_state::stopped);
    adds_up(f.pool.stats());
    std::error_code ec;
    f.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(f.pool.run([] {})); });
    f.time.poll();
    CHECK(ec == errc::stopped);
    f.time.run();
    CHECK(f.pool.stats().rejected == 2);
  }
}

TEST_CASE("P16 stop before any work, twice, and from three coroutines") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 4}};
  std::vector<stop_report> reports;
  for (int i = 0; i < 3; ++i) {
    b.spawn([&]() -> net::awaitable<void> {
      reports.push_back(co_await pool.stop());
      reports.push_back(co_await pool.stop(stop_mode::cancel_all));
    });
  }
  b.time.run();
  REQUIRE(reports.size() == 6);
  for (const auto& r : reports) CHECK(r.submitted == 0);
  CHECK(b.ms() == 0);
}

TEST_CASE("P17 a producer held back at a stop ends with stopped") {
  for (const auto mode : {stop_mode::drain, stop_mode::finish_running, stop_mode::cancel_all}) {
    bench_top b;
    strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
    for (int i = 0; i < 2; ++i)
      (void)pool.try_post([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
    std::error_code ec;
    long at = -1;
    b.spawn([&]() -> net::awaitable<void> {
      ec = co_await outcome_of(pool.run([] {}));
      at = b.ms();
    });
    b.time.run_for(100ms);
    pool.request_stop(mode);
    b.time.poll();
    CHECK(ec == errc::stopped);
    CHECK(at == 100);
    b.time.run();
    CHECK(pool.is_closed());
    adds_up(pool.stats());
  }
}

TEST_CASE("one that leaves the queue lets in the producer that was held back") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
  const auto busy = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
  b.time.poll();
  auto queued = pool.submit([] {}, {.deadline = b.time.now() + 100ms});
  int done = 0;
  for (int i = 0; i < 2; ++i) pool.async_run([] {}, {}, [&done](const std::exception_ptr& e) { done += e ? 9 : 1; });
  CHECK(pool.stats().held_back == 2);
  SECTION("cancelled") { CHECK(queued.cancel()); }
  SECTION("late") { b.time.run_for(100ms); }
  CHECK(has_ended(queued.state()));
  CHECK(pool.stats().held_back == 1);
  CHECK(pool.stats().queued == 1);
  CHECK(busy.state() == task_state::running);
  b.time.run();
  CHECK(done == 2);
  adds_up(pool.stats());
}

TEST_CASE("a pool that grows lets in the producer that it held back, and has room left") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .queue_limit = 1, .on_overflow = overflow::wait}};
  for (int i = 0; i < 2; ++i)
    (void)pool.try_post([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
  long done = -1;
  b.spawn([&]() -> net::awaitable<void> {
    co_await pool.run([] {});
    done = b.ms();
  });
  b.time.run_for(100ms);
  CHECK(pool.stats().held_back == 1);
  pool.resize(9);
  b.time.run_for(1ms);
  CHECK(done == 100);
  CHECK(pool.stats().held_back == 0);
  b.time.run();
  adds_up(pool.stats());
}

TEST_CASE("P18 a batch whose parent is cancelled never looks like a success") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  cancel_source stop;
  int done = 0;
  std::error_code ec;
  auto batch = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 5; ++i) {
      co_await pool.run([](task_context&) -> net::awaitable<void> { co_await sleep_for(10ms); });
      ++done;
    }
  };
  b.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(stop.wrap(batch())); });
  b.time.run_for(15ms);
  stop.cancel();
  b.time.run();
  CHECK(done == 1);
  CHECK(ec == net::error::operation_aborted);
  CHECK(b.ms() == 15);
}

TEST_CASE("P20 after all, the figures are back to nothing and add up") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2, .priorities = 2}};
  for (int i = 0; i < 20; ++i) {
    (void)pool.try_post(
        [i] {
          if (i % 5 == 0) throw std::runtime_error{"no"};
        },
        {.priority = i % 2, .name = "short"});
    (void)pool.try_post([](task_context&) -> net::awaitable<void> { co_await sleep_for(5ms); }, {.name = "long"});
  }
  b.time.run();
  const pool_stats s = pool.stats();
  CHECK(s.working + s.queued + s.delayed + s.held_back == 0);
  adds_up(s);
  REQUIRE(s.names.size() == 2);
  CHECK(s.names[0].name == "long");
  CHECK(s.names[0].ran.max() == 5ms);
  CHECK(s.names[1].name == "short");
  CHECK(s.names[1].ran.count() == 20);
  CHECK(s.names[1].failed == 4);
  CHECK(s.failed == 4);
}

TEST_CASE("classes go first, and arrival counts inside one") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .priorities = 3}};
  std::string order;
  for (int i = 0; i < 3; ++i) {
    for (int p = 2; p >= 0; --p)
      (void)pool.try_post([&order, p, i] { order += std::to_string(p) + std::to_string(i) + ' '; }, {.priority = p});
  }
  b.time.run();
  CHECK(order == "00 01 02 10 11 12 20 21 22 ");
}

TEST_CASE("a cancelled task ends once, in every state") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto slow = [](task_context&) -> net::awaitable<int> {
    co_await sleep_for(100ms);
    co_return 1;
  };
  auto running = pool.submit(slow);
  auto queued = pool.submit(slow);
  auto delayed = pool.submit(slow, {.delay = 1s});
  b.time.run_for(10ms);
  CHECK(running.state() == task_state::running);
  CHECK(queued.cancel());
  CHECK(delayed.cancel());
  CHECK(running.cancel());
  CHECK_FALSE(queued.cancel());
  b.time.poll();
  CHECK(running.state() == task_state::cancelled);
  CHECK_FALSE(running.cancel());
  std::error_code ec;
  b.spawn([&]() -> net::awaitable<void> { ec = co_await outcome_of(running.result()); });
  auto after = pool.submit(slow);
  b.time.run();
  CHECK(ec == net::error::operation_aborted);
  CHECK(after.state() == task_state::succeeded);
  CHECK(b.ms() == 110);
  CHECK(pool.stats().cancelled == 3);
}

TEST_CASE("nothing of a cancelled operation reaches the next one") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  auto first = pool.submit([](task_context&) -> net::awaitable<void> {
    co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
    co_await net::this_coro::throw_if_cancelled(false);
  });
  auto second = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1h); });
  b.time.run_for(1s);
  second.cancel();
  b.time.poll();
  CHECK(second.state() == task_state::cancelled);
  auto third = pool.submit([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
  b.time.run();
  CHECK(third.state() == task_state::succeeded);
}

TEST_CASE("a task gives its result, again and again, wherever it is") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  task<std::string> t = pool.submit([] { return std::string{"a result that is too long to be short"}; });
  auto moved = pool.submit([] { return std::make_unique<int>(7); });
  int seen = 0;
  for (int i = 0; i < 3; ++i) {
    b.spawn([&]() -> net::awaitable<void> {
      const std::string s = co_await t.result();
      CHECK(s.size() == 37);
      ++seen;
    });
  }
  b.spawn([&]() -> net::awaitable<void> {
    const std::unique_ptr<int> p = co_await moved.result();
    CHECK(*p == 7);
    const int n = co_await pool.submit([] { return 3; }).result();
    CHECK(n == 3);
    ++seen;
  });
  b.time.run();
  CHECK(seen == 4);
}

TEST_CASE("any completion token may wait") {
  net::io_context io;
  strand_pool pool{io, {.concurrency = 1}};
  auto f = pool.async_run([] { return 5; }, {}, net::use_future);
  auto g = pool.async_run([]() -> net::awaitable<void> { co_await sleep_for(1ms); }, {}, net::use_future);
  auto t = pool.submit([]() -> int { throw std::runtime_error{"no"}; });
  auto h = t.async_wait(net::use_future);
  int called = 0;
  pool.async_run([] { return 1; }, {}, [&](std::exception_ptr e, int n) { called += !e && n == 1; });
  io.run();
  CHECK(f.get() == 5);
  g.get();
  CHECK_THROWS_AS(h.get(), std::runtime_error);
  CHECK(called == 1);
}

TEST_CASE("groups are cancelled and waited for together") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  int ran = 0;
  auto op = [&ran](task_context&) -> net::awaitable<void> {
    co_await sleep_for(100ms);
    ++ran;
  };
  for (int i = 0; i < 4; ++i) (void)pool.try_post(op, {.group = 7});
  (void)pool.try_post(op, {.group = 8});
  (void)pool.try_post(op, {.delay = 1s, .group = 8});
  long seven = -1, eight = -1, none = -1;
  b.spawn([&]() -> net::awaitable<void> {
    co_await pool.wait_group(9);
    none = b.ms();
    co_await pool.wait_group(7);
    seven = b.ms();
    co_await pool.wait_group(8);
    eight = b.ms();
  });
  b.time.run_for(50ms);
  CHECK(pool.cancel_group(7) == 4);
  CHECK(pool.cancel_group(1) == 0);
  b.time.run();
  CHECK(none == 0);
  CHECK(seven == 50);
  CHECK(eight == 1100);
  CHECK(ran == 2);
  CHECK(pool.stats().cancelled == 4);
}

TEST_CASE("resize changes the number of workers while they work") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 4}};
  int now = 0, started = 0;
  for (int i = 0; i < 40; ++i) {
    (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
      ++now;
      ++started;
      co_await sleep_for(10ms);
      --now;
    });
  }
  b.time.run_for(5ms);
  CHECK(now == 4);
  pool.resize(2);
  b.time.run_for(6ms);
  CHECK(now == 2);
  b.time.run_for(10ms);
  CHECK(now == 2);
  pool.resize(8);
  b.time.poll();
  CHECK(now == 8);
  pool.resize(1);
  b.time.run();
  CHECK(started == 40);
  CHECK(pool.stats().sleeping == 1);
}

TEST_CASE("a pool whose operations break their workers too often stops and says why") {
  bench_top b;
  strand_pool pool{b.io,
                   {.concurrency = 1, .restart = {.limit = 3, .within = 1min, .backoff = backoff::constant(100ms)}}};
  std::vector<long> starts;
  for (int i = 0; i < 6; ++i) {
    (void)pool.try_post([&] {
      starts.push_back(b.ms());
      throw fatal_error{"broken"};
    });
  }
  std::string cause;
  b.spawn([&]() -> net::awaitable<void> { cause = co_await cause_of_end(pool); });
  b.time.run();
  CHECK(cause == "broken");
  CHECK(starts == std::vector<long>{0, 100, 200, 300});
  CHECK(pool.stats().restarts == 4);
  CHECK(pool.stats().stopped == 2);
  adds_up(pool.stats());
}

TEST_CASE("what breaks a worker is what the pool's policy says") {
  bench_top b;
  const auto is_broken = [](const std::exception_ptr& e) { return code_of(e) == errc::store_unavailable; };
  strand_pool pool{
      b.io, {.concurrency = 1, .restart = {.limit = 5, .backoff = backoff::constant(1s), .is_fatal = is_broken}}};
  (void)pool.try_post([] { throw fatal_error{"it says so itself"}; });
  auto next = pool.submit([] {});
  b.time.run();
  CHECK(next.state() == task_state::succeeded);
  CHECK(b.ms() == 0);
  CHECK(pool.stats().restarts == 0);
  (void)pool.try_post([] { throw std::system_error{make_error_code(errc::store_unavailable)}; });
  next = pool.submit([] {});
  b.time.run();
  CHECK(next.state() == task_state::succeeded);
  CHECK(b.ms() == 1000);
  CHECK(pool.stats().restarts == 1);
}

TEST_CASE("of two workers that break at once the first is the cause, and after a stop none is") {
  for (const bool was_stopped : {false, true}) {
    bench_top b;
    strand_pool pool{b.io, {.concurrency = 2, .restart = {.limit = 0}}};
    for (const char* name : {"first", "second"}) {
      (void)pool.try_post([name](task_context&) -> net::awaitable<void> {
        co_await stubborn(1ms);
        throw fatal_error{name};
      });
    }
    b.time.poll();
    if (was_stopped) pool.request_stop(stop_mode::cancel_all);
    if (was_stopped) pool.request_stop(stop_mode::finish_running, 0s);  // which comes too late to be heard
    std::string cause;
    b.spawn([&]() -> net::awaitable<void> { cause = co_await cause_of_end(pool); });
    b.time.run();
    CHECK(pool.is_closed());
    CHECK(cause == (was_stopped ? "" : "first"));
    adds_up(pool.stats());
  }
}

TEST_CASE("a cancellation that comes when its operation breaks the worker just then leaves it to its rest") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1, .restart = {.limit = 5, .backoff = backoff::constant(1s)}}};
  task<void> t;
  b.spawn([&]() -> net::awaitable<void> {
    co_await sleep_for(10ms);
    CHECK(t.cancel());  // which is to reach the worker behind what is under way to it
  });
  b.time.poll();
  t = pool.submit([](task_context&) -> net::awaitable<void> {
    co_await sleep_for(10ms);
    throw fatal_error{"broken"};
  });
  long next = 0;
  (void)pool.try_post([&] { next = b.ms(); });
  b.time.run();
  CHECK(t.state() == task_state::cancelled);
  CHECK(next == 1010);
}

TEST_CASE("a cancellation that fails where it is heeded is tried again") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  int emitted = 0;
  std::function<void()> finish;
  auto t = pool.submit([&](task_context&) {
    return net::async_initiate<const net::use_awaitable_t<>&, void(std::error_code)>(
        [&](auto handler) {
          const auto h = std::make_shared<decltype(handler)>(std::move(handler));
          finish = [h] {
            net::post(net::get_associated_executor(*h),
                      [h] { std::move (*h)(std::error_code{net::error::operation_aborted}); });
          };
          net::get_associated_cancellation_slot(*h).assign([&](net::cancellation_type) {
            if (++emitted == 1) throw std::bad_alloc{};
            std::exchange(finish, nullptr)();
          });
        },
        net::use_awaitable);
  });
  b.time.poll();
  CHECK(t.cancel());
  b.time.run();
  CHECK(emitted == 2);
  CHECK(t.state() == task_state::cancelled);
}

TEST_CASE("what is delayed counts for the limit of the queue, and what a free worker takes does not") {
  bench_top b;
  strand_pool pool{
      b.io, {.concurrency = 1, .priorities = 2, .queue_limit = 1, .on_overflow = overflow::evict_least_important}};
  auto delayed = pool.submit([] {}, {.priority = 1, .delay = 1h});
  b.time.poll();
  auto taken = pool.submit([](task_context&) { return sleep_for(1s); });
  b.time.poll();
  CHECK(taken.state() == task_state::running);
  auto refused = pool.submit([] {});
  CHECK(refused.state() == task_state::failed);  // there is nobody to evict: who is delayed is not
  b.time.run();
  CHECK(taken.state() == task_state::succeeded);
  CHECK(delayed.state() == task_state::succeeded);
  adds_up(pool.stats());
}

TEST_CASE("names beyond the first 256 are counted together") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  for (int i = 0; i < 300; ++i) (void)pool.try_post([] {}, {.name = "number " + std::to_string(i)});
  b.time.run();
  const pool_stats s = pool.stats();
  CHECK(s.names.size() == 256);
  const auto others = std::ranges::find(s.names, "(other)", &name_stats::name);
  REQUIRE(others != s.names.end());
  CHECK(others->succeeded == 300 - 255);
}

TEST_CASE("the last worker to wait for its own pool is refused instead of all waiting for ever") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::vector<std::error_code> ends;
  for (int i = 0; i < 2; ++i) {
    (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
      co_await sleep_for(1ms);
      ends.push_back(
          co_await outcome_of(pool.run([](task_context&) -> net::awaitable<void> { co_await sleep_for(1ms); })));
    });
  }
  b.time.run();
  REQUIRE(ends.size() == 2);
  CHECK(ends[0] == std::errc::resource_deadlock_would_occur);
  CHECK(!ends[1]);
}

TEST_CASE("a wait that a resize leaves without a worker to wait for ends") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 3}};
  std::vector<std::error_code> ends;
  int inner = 0;
  for (int i = 0; i < 2; ++i) {
    (void)pool.try_post([&](task_context&) -> net::awaitable<void> {
      ends.push_back(co_await outcome_of(pool.run(
          [&](task_context& t) {
            if (t.attempt() == 1) throw std::runtime_error{"once more"};
            ++inner;
          },
          {.retry = {.attempts = 2, .backoff = backoff::constant(1s)}})));
    });
  }
  b.time.poll();
  pool.resize(1);
  b.time.run();
  // Each of them has a worker's place, and the one place that is left is for neither of what they wait for.
  CHECK(ends == std::vector<std::error_code>(2, std::make_error_code(std::errc::resource_deadlock_would_occur)));
  CHECK(inner == 0);
  CHECK(pool.stats().working == 0);
  int ran = 0;
  CHECK(pool.try_post([&] { ++ran; }));
  b.time.run();
  CHECK(ran == 1);
  adds_up(pool.stats());
}

TEST_CASE("an operation that what it waits for drops has failed, and its worker is replaced") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  const auto drop = [](task_context&) -> net::awaitable<void> {
    const auto never_called = [](auto handler) { auto dropped = std::move(handler); };
    co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(never_called, net::use_awaitable);
  };
  int ran = 0;
  for (int i = 0; i < 3; ++i) {
    auto lost = pool.submit(drop);
    auto next = pool.submit([&] { ++ran; });
    bool was_drained = false;
    if (i == 2) {
      b.spawn([&]() -> net::awaitable<void> {
        const stop_report r = co_await pool.stop(stop_mode::drain);
        was_drained = r.submitted == 6 && r.succeeded == 3 && r.failed == 3;
      });
    }
    b.time.run();
    CHECK(was_drained == (i == 2));
    CHECK(lost.state() == task_state::failed);
    std::error_code why;
    b.spawn([&]() -> net::awaitable<void> { why = co_await outcome_of(lost.result()); });
    b.time.run();
    CHECK(why == std::future_errc::broken_promise);
    CHECK(next.state() == task_state::succeeded);
  }
  CHECK(ran == 3);
  CHECK(pool.is_closed());
  adds_up(pool.stats());
}

TEST_CASE("a pool may be destroyed with work of all kinds, before and after its context") {
  for (const bool context_first : {false, true}) {
    for (int polls = 0; polls < 4; ++polls) {
      auto io = std::make_unique<net::io_context>();
      auto time = std::make_unique<testing::virtual_time>(*io);
      auto pool = std::make_unique<strand_pool>(
          *io, strand_pool_options{.concurrency = 2, .queue_limit = 3, .on_overflow = overflow::wait});
      auto held = std::make_shared<int>(1);
      task<void> kept = pool->submit([held](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); },
                                     {.group = 1, .name = "x"});
      for (int i = 0; i < 8; ++i) {
        net::co_spawn(
            *io,
            [&p = *pool, held]() -> net::awaitable<void> {
              auto op = p.submit([held](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); });
              co_await p.run([](task_context&) -> net::awaitable<void> { co_await sleep_for(1s); }, {.timeout = 5s});
            },
            net::detached);
      }
      pool->async_run([held] { return 1; }, {}, [held](std::exception_ptr, int) {});
      (void)pool->try_post([held] {}, {.delay = 1s});
      const auto watch = [](std::shared_ptr<int>, auto end) -> net::awaitable<void> { co_await std::move(end); };
      net::co_spawn(*io, watch(held, kept.result()), net::detached);
      net::co_spawn(*io, watch(held, pool->wait_group(1)), net::detached);
      net::co_spawn(*io, watch(held, pool->closed()), net::detached);
      time->poll();
      for (int i = 0; i < polls; ++i) time->run_for(400ms);
      if (context_first) {
        time.reset();
        io.reset();
        pool.reset();
      } else {
        pool.reset();
        if (polls % 2 == 0) time->run();
        time.reset();
        io.reset();
      }
      CHECK(has_ended(kept.state()));
      kept = {};
      CHECK(held.use_count() == 1);
    }
  }
}

TEST_CASE("natural spellings of an operation with captures own what they capture") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  int sum = 0;
  b.spawn([&]() -> net::awaitable<void> {
    int base = 0;
    ++base;
    sum += co_await pool.run([base] { return base; });
    sum += co_await pool.run([&] { return base; }, {.timeout = 1s});
    auto number = std::make_unique<int>(10);
    const std::string text(100, 'x');
    const std::string brief = "abc";
    const auto shared = std::make_shared<int>(1000);
    net::awaitable<int> op = pool.run([n = std::move(number)] { return *n; });
    sum += co_await std::move(op);
    auto t = pool.submit([text, shared](task_context&) -> net::awaitable<int> {
      co_await sleep_for(1ms);
      co_return static_cast<int>(text.size()) + *shared;
    });
    sum += co_await t.result();
    auto named = [brief] { return static_cast<int>(brief.size()) * 100'000; };
    sum += co_await pool.run(named);
#if defined(__clang__) || __GNUC__ > 12
    sum += co_await pool.run([n = std::make_unique<int>(1'000'000), brief] { return *n; });
#else
    sum += 1'000'000;
#endif
    CHECK(shared.use_count() == 1);  // a task that has ended keeps its result only
  });
  b.time.run();
  CHECK(sum == 1'301'112);
}

TEST_CASE("what an operation has captured goes when it has run, not with the last handle of its task") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  const auto shared = std::make_shared<int>(1);
  auto quick = pool.submit([shared] { return *shared; });
  auto slow = pool.submit([shared]() -> net::awaitable<void> { co_await sleep_for(1s); });
  REQUIRE(shared.use_count() == 3);
  b.time.run_for(500ms);
  CHECK(quick.state() == task_state::succeeded);
  CHECK(shared.use_count() == 2);
  b.time.run_for(1s);
  CHECK(slow.state() == task_state::succeeded);
  CHECK(shared.use_count() == 1);
}
