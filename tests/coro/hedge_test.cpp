#include "canigo/hedge.hpp"

#include "canigo/algorithms/latency_window.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/retry.hpp"
#include "canigo/task_group.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/pool_run.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace hedge_test {

/// The n-th call takes so long, and ends in its way; notes when each began and ended, and how many run.
struct race_run : limits_run {
  struct plan {
    duration takes;
    bool fails = false;
    duration cleans_up = 0s;  // after a cancellation
  };
  std::vector<plan> plans;
  retry_budget budget{{.percent = 100, .reserve = 100, .most = 100}};
  int running = 0;

  net::awaitable<std::string> call(std::uint32_t number) {
    const std::string name = "copy " + std::to_string(number);
    const plan p = plans.at(number - 1);
    note(name);
    ++running;
    std::exception_ptr cancelled;
    try {
      co_await sleep_for(p.takes);
    } catch (...) {
      cancelled = std::current_exception();
    }
    if (cancelled) co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
    if (cancelled && p.cleans_up > 0s) co_await sleep_for(p.cleans_up);
    --running;
    note(name + (cancelled ? " cancelled" : p.fails ? " failed" : " done"));
    if (cancelled) std::rethrow_exception(cancelled);
    if (p.fails) throw std::runtime_error{name + " failed"};
    co_return name;
  }
  auto make() {
    return [this](std::uint32_t number) { return call(number); };
  }
  hedge_options after(duration d, std::uint32_t copies = 1) {
    return {.after = d, .copies = copies, .budget = &budget};
  }
  /// Runs one and notes what became of it.
  void race(hedge_options o) {
    go([this, o]() -> net::awaitable<void> {
      std::string said;
      try {
        said = co_await hedge(make(), o);
      } catch (const std::exception& e) {
        said = std::string{"threw "} + e.what();
      }
      note(said + ", running " + std::to_string(running));
    });
  }
};

TEST_CASE("a fast operation has no copy", "[hedge]") {
  race_run run;
  run.plans = {{40ms}};
  run.race(run.after(50ms));
  run.time.run();
  CHECK(run.log == log_lines{"copy 1@0", "copy 1 done@40", "copy 1, running 0@40"});
}

TEST_CASE("a copy of a slow operation wins, and the slow one is cancelled and awaited", "[hedge]") {
  race_run run;
  run.plans = {{1s, false, 30ms}, {20ms}};
  run.race(run.after(50ms));
  run.time.run();
  CHECK(run.log ==
        log_lines{"copy 1@0", "copy 2@50", "copy 2 done@70", "copy 1 cancelled@100", "copy 2, running 0@100"});
}

TEST_CASE("the first operation may win against its copy", "[hedge]") {
  race_run run;
  run.plans = {{60ms}, {20ms}};
  run.race(run.after(50ms));
  run.time.run();
  CHECK(run.log == log_lines{"copy 1@0", "copy 2@50", "copy 1 done@60", "copy 2 cancelled@60", "copy 1, running 0@60"});
}

TEST_CASE("each copy starts as long after the one before it", "[hedge]") {
  race_run run;
  run.plans = {{1s}, {1s}, {1s}, {5ms}};
  run.race(run.after(50ms, 3));
  run.time.run();
  CHECK(run.log.back() == "copy 4, running 0@155");
  CHECK(std::count(run.log.begin(), run.log.end(), "copy 3@100") == 1);
}

TEST_CASE("a failure starts no copy, and leaves the decision to the copies that run", "[hedge]") {
  race_run run;
  SECTION("none runs") {
    run.plans = {{10ms, true}};
    run.race(run.after(50ms));
    run.time.run();
    CHECK(run.log.back() == "threw copy 1 failed, running 0@10");
  }
  SECTION("one runs, and has a result") {
    run.plans = {{60ms, true}, {30ms}};
    run.race(run.after(50ms));
    run.time.run();
    CHECK(run.log.back() == "copy 2, running 0@80");
  }
  SECTION("all fail: the last failure is thrown") {
    run.plans = {{60ms, true}, {30ms, true}};
    run.race(run.after(50ms));
    run.time.run();
    CHECK(run.log.back() == "threw copy 2 failed, running 0@80");
  }
}

TEST_CASE("a result that comes after the first one is dropped", "[hedge]") {
  race_run run;
  run.plans = {{100ms}, {50ms}};
  run.race(run.after(50ms));  // both at 100 ms
  run.time.run();
  CHECK((run.log.back() == "copy 1, running 0@100" || run.log.back() == "copy 2, running 0@100"));
  CHECK(run.running == 0);
}

TEST_CASE("without a budget that has one no copy starts", "[hedge]") {
  race_run run;
  retry_budget budget{{.percent = 50, .reserve = 0, .most = 10}};
  run.plans = {{100ms}, {1ms}};
  for (int i = 0; i < 4; ++i) {
    run.race({.after = 50ms, .budget = &budget});
    run.time.run();
  }
  // Each pays in a half.
  CHECK(run.ms() == 100 + 51 + 100 + 51);
  CHECK(retry_budget{hedge_budget}.left() == 10);
  CHECK(hedge_budget.percent == 5);
}

TEST_CASE("a caller that is cancelled cancels all copies, and waits for them", "[hedge]") {
  race_run run;
  run.plans = {{1s, false, 30ms}, {1s, false, 50ms}};
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { (void)co_await hedge(run.make(), run.after(50ms)); }, signal, ended);
  SECTION("while two run") {
    run.time.run_for(60ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.run_for(49ms);
    CHECK_FALSE(ended);
    run.time.run();
    CHECK(run.log == log_lines{"copy 1@0", "copy 2@50", "copy 1 cancelled@90", "copy 2 cancelled@110"});
  }
  SECTION("while one runs: no other one starts") {
    run.time.run_for(30ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(run.log == log_lines{"copy 1@0", "copy 1 cancelled@60"});
  }
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.running == 0);
}

TEST_CASE("a result that is there when the caller is cancelled is returned", "[hedge]") {
  limits_run run;
  retry_budget budget{hedge_budget};
  net::cancellation_signal signal;
  std::error_code ended = make_error_code(errc::stopped);
  int result = 0;
  run.go(
      [&]() -> net::awaitable<void> {
        result = co_await hedge(
            [&]() -> net::awaitable<int> {
              co_await pool_run::stubborn(50ms);
              co_return 7;
            },
            {.after = 1s, .budget = &budget});
      },
      signal, ended);
  run.time.run_for(10ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(result == 7);
  CHECK_FALSE(ended);
}

TEST_CASE("a group takes over the copies that lost", "[hedge]") {
  race_run run;
  task_group group{run.io};
  run.plans = {{1s, false, 200ms}, {20ms}};
  hedge_options o = run.after(50ms);
  o.group = &group;
  run.race(o);
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(75ms);
    CHECK(group.running() == 1);
    co_await group.join();  // the losers are no failed children
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"copy 1@0", "copy 2@50", "copy 2 done@70", "copy 2, running 1@70", "copy 1 cancelled@270",
                             "joined@270"});
}

TEST_CASE("a cancelled group waits for the copies that lost, too", "[hedge]") {
  race_run run;
  task_group group{run.io};
  run.plans = {{1s, false, 200ms}, {20ms}};
  hedge_options o = run.after(50ms);
  o.group = &group;
  run.race(o);
  group.cancel();
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(75ms);
    co_await group.join();
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log.back() == "joined@270");
}

TEST_CASE("a delay by quantile comes from the window of the service", "[hedge]") {
  race_run run;
  latency_window window{{.length = 1h, .least_samples = 10}};
  retry_budget& budget = run.budget;
  run.plans = {{10ms}, {5ms}};
  const hedge_options o{.after = quantile{0.95}, .budget = &budget, .window = &window};
  for (int i = 0; i < 10; ++i) {
    run.race(o);
    run.time.run();
  }
  CHECK(window.count(run.time.now()) == 10);
  const duration slow = window.quantile(run.time.now(), 0.95).value();
  CHECK(slow >= 10ms);
  CHECK(slow <= 12500us);
  run.plans[0].takes = 1s;
  const auto start = run.time.elapsed();
  run.race(o);
  run.time.run();
  CHECK(run.time.elapsed() - start == slow + 5ms);
  // The slow one counts with the time that it had taken when it was ended.
  CHECK(window.count(run.time.now()) == 11);
  CHECK(window.quantile(run.time.now(), 1).value() >= slow + 5ms);
}

TEST_CASE("the window learns how long a first copy took, or took at least, and nothing where that failed", "[hedge]") {
  race_run run;
  latency_window window{{.least_samples = 1}};
  hedge_options o = run.after(10ms);
  o.window = &window;
  const auto now_known = [&](std::vector<race_run::plan> plans) {
    run.plans = std::move(plans);
    run.race(o);
    run.time.run();
    return window.count(run.time.now());
  };
  CHECK(now_known({{20ms, true}, {30ms}}) == 0);
  CHECK(now_known({{5ms, true}}) == 0);
  CHECK(now_known({{20ms, true}, {20ms, true}}) == 0);
  CHECK(now_known({{5ms}}) == 1);
  CHECK(now_known({{100ms}, {30ms}}) == 2);
  CHECK(now_known({{50ms}, {20ms, true}}) == 3);
  CHECK(window.quantile(run.time.now(), 0).value() >= 5ms);
  CHECK(window.quantile(run.time.now(), 0).value() < 6ms);
  CHECK(window.quantile(run.time.now(), 0.5).value() >= 40ms);
  CHECK(window.quantile(run.time.now(), 0.5).value() < 45ms);
  CHECK(window.quantile(run.time.now(), 1).value() >= 50ms);
}

TEST_CASE("while the window knows too few calls there are no copies", "[hedge]") {
  race_run run;
  latency_window window{{.length = 1h, .least_samples = 2}};
  run.plans = {{1s}, {5ms}};
  const hedge_options o{.after = quantile{0.5}, .budget = &run.budget, .window = &window};
  run.race(o);
  run.time.run();
  CHECK(run.ms() == 1000);
  run.race(o);
  run.time.run();
  CHECK(run.ms() == 2000);
  run.plans[0].takes = 1h;
  run.race(o);
  run.time.run();
  CHECK(run.ms() < 3300);
}

TEST_CASE("what fails counts as no latency", "[hedge]") {
  race_run run;
  latency_window window;
  run.plans = {{10ms, true}};
  run.race({.after = quantile{0.5}, .budget = &run.budget, .window = &window});
  run.time.run();
  CHECK(window.count(run.time.now()) == 0);
}

TEST_CASE("a hedge that nobody starts calls nothing, and pays nothing into the budget", "[hedge]") {
  race_run run;
  retry_budget budget{{.percent = 1000, .reserve = 2, .most = 100}};
  {
    const auto unstarted = hedge(run.make(), {.after = 1ms, .budget = &budget});
  }
  run.time.run();
  CHECK(run.log.empty());
  CHECK(budget.left() == 2);
}

TEST_CASE("options of a hedge that can't be are refused by field, value and range", "[hedge]") {
  race_run run;
  run.plans = {{10ms}};
  const auto said = [&](hedge_options o) {
    run.log.clear();
    run.race(o);
    run.time.run();
    return run.log.back();
  };
  const auto refused = [&](hedge_options o, const std::string& text) { CHECK(said(o).starts_with("threw " + text)); };
  retry_budget& b = run.budget;
  latency_window w;
  refused({.after = -1ms, .budget = &b}, "hedge_options.after is -1ms; allowed: 0 or more");
  refused({.after = quantile{1.5}, .budget = &b, .window = &w}, "hedge_options.after is 1.5");
  refused({.after = quantile{0.5}, .budget = &b}, "hedge_options.window is null; allowed: a latency_window");
  refused({.copies = 0, .budget = &b}, "hedge_options.copies is 0; allowed: 1 to 16");
  refused({.copies = 17, .budget = &b}, "hedge_options.copies is 17; allowed: 1 to 16");
  refused({.after = 1s}, "hedge_options.budget is null; allowed: a retry_budget");
  CHECK(run.running == 0);
}

TEST_CASE("hedges, retries and limits of time nest", "[hedge]") {
  race_run run;
  run.plans = {{40ms, true}, {10ms}};
  std::string result;
  run.go([&]() -> net::awaitable<void> {
    result = co_await with_timeout(hedge(
                                       [&] {
                                         return retry([&](std::uint32_t n) { return run.call(n); },
                                                      {.attempts = 2, .backoff = backoff::constant(100ms)});
                                       },
                                       run.after(1s)),
                                   2s);
    run.note(result);
  });
  run.time.run();
  CHECK(run.log.back() == "copy 2@150");
}

TEST_CASE("an operation without a result can be hedged, and what makes it may throw", "[hedge]") {
  limits_run run;
  retry_budget budget{hedge_budget};
  int calls = 0;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> {
    co_await hedge(
        [&]() -> net::awaitable<void> {
          ++calls;
          co_await sleep_for(1ms);
        },
        {.after = 1s, .budget = &budget});
    ended = co_await outcome_of(hedge([&]() -> net::awaitable<void> { throw std::system_error{errc::queue_full}; },
                                      {.after = 1s, .budget = &budget}));
  });
  run.time.run();
  CHECK(calls == 1);
  CHECK(ended == errc::queue_full);
}

TEST_CASE("a context that goes takes a hedge and its copies along", "[hedge]") {
  for (const duration d : {10ms, 60ms}) {
    auto run = std::make_unique<race_run>();
    run->plans = {{1s}, {1s}};
    int gone = 0;
    const auto mark = [&gone] { return std::shared_ptr<int>{&gone, [](int* n) { ++*n; }}; };
    run->go([&r = *run, mark]() -> net::awaitable<void> {
      const auto outer = mark();
      (void)co_await hedge(
          [&r, mark](std::uint32_t n) -> net::awaitable<std::string> {
            const auto inner = mark();
            co_return co_await r.call(n);
          },
          r.after(50ms));
    });
    run->time.run_for(d);
    CHECK(gone == 0);
    run.reset();
    CHECK(gone == (d == 10ms ? 2 : 3));
  }
}

TEST_CASE("hedges in a random order leave nothing running", "[hedge]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    testing::simulation world{seed};
    retry_budget budget{{.percent = 100, .reserve = 10, .most = 100}};
    int running = 0;
    int ended = 0;
    std::vector<std::unique_ptr<net::cancellation_signal>> signals;
    for (int i = 0; i < 4; ++i) {
      signals.push_back(std::make_unique<net::cancellation_signal>());
      net::co_spawn(
          net::any_io_executor{world.get_executor()},
          [&]() -> net::awaitable<void> {
            const auto call = [&]() -> net::awaitable<int> {
              ++running;
              std::exception_ptr e;
              try {
                co_await sleep_for(std::chrono::milliseconds{world.random(100)});
              } catch (...) {
                e = std::current_exception();
              }
              --running;
              if (e) std::rethrow_exception(e);
              if (world.random(4) == 0) throw std::runtime_error{"failed"};
              co_return 1;
            };
            std::exception_ptr e;
            try {
              (void)co_await hedge(call, {.after = 20ms, .copies = 3, .budget = &budget});
            } catch (...) {
              e = std::current_exception();
            }
            ++ended;
          },
          net::bind_cancellation_slot(signals.back()->slot(), net::detached));
    }
    world.run_for(std::chrono::milliseconds{world.random(60)});
    signals[0]->emit(net::cancellation_type::terminal);
    world.run();
    INFO("seed=" << seed);
    CHECK(running == 0);
    CHECK(ended == 4);
  }
}

TEST_CASE("hedges run on the threads of a pool", "[hedge]") {
  net::thread_pool pool{2};
  retry_budget budget{{.percent = 1000, .reserve = 100, .most = 1000}};
  std::atomic<int> running{0};
  std::vector<std::future<int>> results;
  for (int i = 0; i < 200; ++i) {
    results.push_back(net::co_spawn(
        net::any_io_executor{pool.get_executor()},
        [&, i]() -> net::awaitable<int> {
          co_return co_await hedge(
              [&, i](std::uint32_t n) -> net::awaitable<int> {
                ++running;
                std::exception_ptr e;
                try {
                  co_await sleep_for(n == 1 && i % 2 == 0 ? 1h : std::chrono::nanoseconds{i * 10'000});
                } catch (...) {
                  e = std::current_exception();
                }
                --running;
                if (e) std::rethrow_exception(e);
                co_return i;
              },
              {.after = 1ms, .copies = 2, .budget = &budget});
        },
        net::use_future));
  }
  for (int i = 0; i < 200; ++i) CHECK(results[static_cast<std::size_t>(i)].get() == i);
  CHECK(running == 0);
}

}  // namespace hedge_test
