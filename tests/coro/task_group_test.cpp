#include "canigo/task_group.hpp"

#include "canigo/cancel.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <atomic>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

net::awaitable<int> value_after(int value, duration d) {
  co_await sleep_for(d);
  co_return value;
}

net::awaitable<void> failure_after(std::string what, duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{what};
}

/// Notes how it ends.
net::awaitable<void> worker(limits_run& run, std::string name, duration d) {
  try {
    co_await sleep_for(d);
    run.note(name);
  } catch (const std::system_error& e) {
    run.note(name + (e.code() == net::error::operation_aborted ? " cancelled" : " failed"));
    throw;
  }
}

std::string what_of(const std::exception_ptr& e) {
  try {
    std::rethrow_exception(e);
  } catch (const std::exception& x) {
    return x.what();
  }
}

}  // namespace

TEST_CASE("join waits for all, and results are there then", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto a = group.spawn(value_after(1, 30ms));
    auto b = group.spawn(value_after(2, 10ms));
    auto c = group.spawn(sleep_for(20ms));
    CHECK(group.running() == 3);
    CHECK_FALSE(a.ready());
    CHECK_THROWS_WITH(a.get(), Catch::Contains("task_result.get is a task that runs"));
    co_await group.join();
    CHECK(a.get() + b.get() == 3);
    c.get();
    a.get() = 7;
    CHECK(a.get() == 7);
    CHECK(group.running() == 0);
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"joined@30"});
}

TEST_CASE("a result needs no default constructor, and may be moved out", "[task_group]") {
  struct box {
    explicit box(int v) : value{std::make_unique<int>(v)} {}
    std::unique_ptr<int> value;
  };
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto make = [](int v) -> net::awaitable<box> { co_return box{v}; };
    auto result = group.spawn(make(5));
    co_await group.join();
    const box mine = std::move(result.get());
    CHECK(*mine.value == 5);
  });
  run.time.run();
}

TEST_CASE("the first error cancels the rest, waits for them and comes out of join", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto slow = group.spawn(worker(run, "slow", 1h));
    auto done = group.spawn(value_after(3, 5ms));
    auto broken = group.spawn(failure_after("first", 10ms));
    group.spawn(failure_after("second", 10ms));
    std::string what;
    try {
      co_await group.join();
    } catch (const std::runtime_error& e) {
      what = e.what();
    }
    CHECK(what == "first");
    CHECK(done.get() == 3);
    CHECK_THROWS_WITH(broken.get(), "first");
    CHECK_THROWS_AS(slow.get(), std::system_error);
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"slow cancelled@10", "joined@10"});
}

TEST_CASE("join waits for a child that takes its time to heed the cancellation", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto stubborn = [&]() -> net::awaitable<void> {
      try {
        co_await sleep_for(1h);
      } catch (const std::system_error&) {
      }
      co_await net::this_coro::reset_cancellation_state();
      co_await sleep_for(90ms);
      run.note("cleaned up");
    };
    group.spawn(stubborn());
    group.spawn(failure_after("x", 10ms));
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "x");
    run.note("joined");
  });
  run.time.run();
  CHECK(run.log == log_lines{"cleaned up@100", "joined@100"});
}

TEST_CASE("a child that failed before join is not forgotten", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    group.spawn(worker(run, "slow", 1h));
    group.spawn(failure_after("early", 1ms));
    co_await sleep_for(50ms);
    CHECK(run.log.empty());
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "early");
  });
  run.time.run();
  CHECK(run.log == log_lines{"slow cancelled@50"});
}

TEST_CASE("wait_all cancels nothing and collects the failures", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto value = group.spawn(value_after(9, 40ms));
    group.spawn(failure_after("later", 20ms));
    group.spawn(failure_after("sooner", 10ms));
    const auto errors = co_await group.wait_all();
    REQUIRE(errors.size() == 2);
    CHECK(what_of(errors[0]) == "sooner");
    CHECK(what_of(errors[1]) == "later");
    CHECK(value.get() == 9);
    const auto none = co_await group.wait_all();
    CHECK(none.empty());
    run.note("all");
  });
  run.time.run();
  CHECK(run.log == log_lines{"all@40"});
}

TEST_CASE("a group can be used again after a join that failed", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    group.spawn(failure_after("x", 1ms));
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "x");
    auto again = group.spawn(value_after(4, 5ms));
    co_await group.join();
    CHECK(again.get() == 4);
    co_await group.join();
  });
  run.time.run();
}

TEST_CASE("after a join that failed, a failure ends nobody before the next join", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    group.spawn(failure_after("x", 1ms));
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "x");
    auto other = group.spawn(value_after(4, 5ms));
    group.spawn(failure_after("y", 1ms));
    co_await sleep_for(10ms);
    const auto errors = co_await group.wait_all();
    REQUIRE(errors.size() == 1);
    CHECK(what_of(errors[0]) == "y");
    CHECK(other.get() == 4);
  });
  run.time.run();
}

TEST_CASE("cancel ends what runs, and what is spawned before the join is through", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    group.spawn(worker(run, "a", 1h));
    co_await sleep_for(5ms);
    group.cancel();
    group.cancel();
    group.spawn(worker(run, "never begins", 1h));
    const auto code = co_await outcome_of(group.join());
    CHECK(code == net::error::operation_aborted);
    auto fresh = group.spawn(value_after(1, 5ms));
    co_await group.join();
    CHECK(fresh.get() == 1);
  });
  run.time.run();
  CHECK(run.log == log_lines{"a cancelled@5"});
}

TEST_CASE("a child cancelled right after its spawn ends where it first waits", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    group.spawn(worker(run, "a", 1h));
    group.cancel();
    const auto code = co_await outcome_of(group.join());
    CHECK(code == net::error::operation_aborted);
  });
  run.time.run();
  CHECK(run.log == log_lines{"a cancelled@0"});
}

TEST_CASE("P18: a batch of 5 whose parent is cancelled after 1 is an error, with 1 done and 4 not", "[task_group]") {
  limits_run run;
  const bool collect = GENERATE(false, true);
  int done = 0;
  int cancelled = 0;
  bool success = false;
  std::vector<std::exception_ptr> errors;
  net::cancellation_signal signal;
  std::error_code ended;
  run.go(
      [&]() -> net::awaitable<void> {
        task_group group{co_await net::this_coro::executor};
        for (int i = 1; i <= 5; ++i) {
          auto job = [&done, &cancelled, i]() -> net::awaitable<void> {
            try {
              co_await sleep_for(i * 10ms);
              ++done;
            } catch (const std::system_error&) {
              ++cancelled;
              throw;
            }
          };
          // The group takes the coroutine, the coroutine does not take the lambda: it is called from a frame that
          // stays.
          group.spawn([](auto f) -> net::awaitable<void> { co_await f(); }(job));
        }
        if (collect) {
          errors = co_await group.wait_all();
        } else {
          co_await group.join();
        }
        success = errors.empty();
      },
      signal, ended);
  run.time.run_for(15ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(done == 1);
  CHECK(cancelled == 4);
  CHECK_FALSE(success);
  if (collect) {
    CHECK(errors.size() == 4);
  } else {
    CHECK(ended == net::error::operation_aborted);
  }
  CHECK(run.ms() == 15);
}

TEST_CASE("a parent that is cancelled already still waits for its children when it joins", "[task_group]") {
  limits_run run;
  net::cancellation_signal signal;
  std::error_code ended;
  run.go(
      [&]() -> net::awaitable<void> {
        task_group group{run.io};
        group.spawn(worker(run, "child", 1h));
        try {
          co_await sleep_for(1h);
        } catch (const std::system_error&) {
        }
        co_await net::this_coro::throw_if_cancelled(false);
        const auto code = co_await outcome_of(group.join());
        CHECK(code == net::error::operation_aborted);
        const bool throws = co_await net::this_coro::throw_if_cancelled();
        CHECK_FALSE(throws);
        run.note("joined");
      },
      signal, ended);
  run.time.run_for(5ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(run.log == log_lines{"child cancelled@5", "joined@5"});
}

TEST_CASE("cancelling a parent in join where all children succeed nevertheless loses nothing", "[task_group]") {
  limits_run run;
  net::cancellation_signal signal;
  std::error_code ended = net::error::would_block;
  int value = 0;
  run.go(
      [&]() -> net::awaitable<void> {
        task_group group{run.io};
        auto stubborn = []() -> net::awaitable<int> {
          co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
          co_await sleep_for(10ms);
          co_return 5;
        };
        auto result = group.spawn(stubborn());
        co_await group.join();
        value = result.get();
      },
      signal, ended);
  run.time.run_for(5ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(value == 5);
  CHECK_FALSE(ended);
}

TEST_CASE("a group destroyed with running children cancels them, and tells who joins", "[task_group]") {
  limits_run run;
  auto group = std::make_unique<task_group>(run.io);
  group->spawn(worker(run, "child", 1h));
  std::error_code told;
  const bool joins = GENERATE(true, false);
  run.go([&]() -> net::awaitable<void> {
    if (joins) {
      auto joining = group->join();
      told = co_await outcome_of(std::move(joining));
    } else {
      auto waiting = group->wait_all();
      told = co_await outcome_of(std::move(waiting));
    }
  });
  run.time.run_for(5ms);
  group.reset();
  run.time.run();
  CHECK(run.log == log_lines{"child cancelled@5"});
  CHECK(told == errc::stopped);
}

TEST_CASE("a parent that leaves by an exception takes its children along", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    auto parent = [&]() -> net::awaitable<void> {
      task_group group{run.io};
      group.spawn(worker(run, "child", 1h));
      co_await sleep_for(5ms);
      throw std::runtime_error{"left"};
    };
    const auto what = co_await outcome_of_any(parent());
    CHECK(what == "left");
  });
  run.time.run();
  CHECK(run.log == log_lines{"child cancelled@5"});
}

TEST_CASE("the context may go with children running and a parent in join", "[task_group]") {
  auto run = std::make_unique<limits_run>();
  task_group outside{run->io};
  outside.spawn(sleep_for(1h));
  run->go([&]() -> net::awaitable<void> {
    task_group group{run->io};
    for (int i = 0; i < 3; ++i) group.spawn(sleep_for(1h));
    co_await group.join();
  });
  run->time.run_for(1s);
  run.reset();
  CHECK(outside.running() == 0);
  outside.cancel();
}

TEST_CASE("ten thousand failures are collected, and forgotten, without depth", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    for (int i = 0; i < 10'000; ++i) group.spawn(failure_after("x", 1ms));
    const auto errors = co_await group.wait_all();
    CHECK(errors.size() == 10'000);
    for (int i = 0; i < 10'000; ++i) group.spawn(failure_after("x", 1ms));
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "x");
    for (int i = 0; i < 10'000; ++i) group.spawn(failure_after("x", 1ms));
    co_await sleep_for(2ms);
  });
  run.time.run();
}

TEST_CASE("groups nest: what cancels the outer one cancels the inner one", "[task_group]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    task_group outer{run.io};
    auto inner = [&]() -> net::awaitable<void> {
      task_group group{run.io};
      group.spawn(worker(run, "a", 1h));
      group.spawn(worker(run, "b", 1h));
      co_await group.join();
    };
    outer.spawn(inner());
    outer.spawn(failure_after("x", 10ms));
    const auto what = co_await outcome_of_any(outer.join());
    CHECK(what == "x");
    run.note("joined");
  });
  run.time.run();
  REQUIRE(run.log.size() == 3);
  CHECK(run.log.back() == "joined@10");
}

TEST_CASE("a child cancelled while it waits for a permit takes none", "[task_group]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  const permit held = s.try_acquire().value();
  run.go([&]() -> net::awaitable<void> {
    task_group group{run.io};
    auto wanting = [&]() -> net::awaitable<void> { const permit p = co_await s.acquire(); };
    group.spawn(wanting());
    group.spawn(failure_after("x", 10ms));
    const auto what = co_await outcome_of_any(group.join());
    CHECK(what == "x");
  });
  run.time.run();
  CHECK(s.stats().cancelled == 1);
  CHECK(s.stats().held == 1);
}

TEST_CASE("results, failures and the group outlive the context", "[task_group]") {
  std::vector<task_result<int>> results;
  std::unique_ptr<task_group> group;
  {
    limits_run run;
    group = std::make_unique<task_group>(run.io);
    results.push_back(group->spawn(value_after(1, 1s)));
    results.push_back(group->spawn(value_after(2, 1h)));
    group->spawn(failure_after("broken", 1s));
    run.time.run_for(1min);
  }
  CHECK(results[0].get() == 1);
  CHECK_FALSE(results[1].ready());
  group->cancel();
  CHECK(group->running() == 0);
}

TEST_CASE("several threads run the children of many groups, which fail and are cancelled", "[task_group][threads]") {
  net::io_context io;
  std::atomic<int> joined{0};
  std::atomic<int> running{0};
  std::atomic<bool> left_behind{false};
  constexpr int groups = 60;
  for (int g = 0; g < groups; ++g) {
    net::co_spawn(
        net::make_strand(io),
        [&, g]() -> net::awaitable<void> {
          std::atomic<int> mine{0};
          task_group group{io};
          for (int i = 0; i < 12; ++i) {
            auto job = [](std::atomic<int>& count, std::atomic<int>& all, int n) -> net::awaitable<void> {
              struct in {
                std::atomic<int>& a;
                std::atomic<int>& b;
                in(std::atomic<int>& x, std::atomic<int>& y) : a{x}, b{y} { ++a, ++b; }
                ~in() { --a, --b; }
              };
              const in inside{count, all};
              for (int k = 0; k < 20; ++k) co_await net::post(net::use_awaitable);
              co_await sleep_for(std::chrono::microseconds{n * 37 % 500});
              if (n % 11 == 5) throw std::runtime_error{"x"};
              co_await sleep_for(std::chrono::microseconds{n * 91 % 2000});
            };
            group.spawn(job(mine, running, g * 12 + i));
          }
          if (g % 5 == 0) group.cancel();
          try {
            if (g % 3 == 0) {
              (void)co_await group.wait_all();
            } else {
              co_await group.join();
            }
          } catch (const std::exception&) {
          }
          if (mine != 0) left_behind = true;
          ++joined;
        },
        net::detached);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { io.run(); });
  for (auto& t : threads) t.join();
  CHECK(joined == groups);
  CHECK(running == 0);
  CHECK_FALSE(left_behind);
}
