#include "canigo/retry.hpp"

#include "canigo/retry_policy.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/task_group.hpp"
#include "canigo/testing/simulation.hpp"
#include "canigo/with_limit.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/refusal.hpp"

#include <asio/cancellation_signal.hpp>
#include <asio/experimental/awaitable_operators.hpp>

#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace retry_test {

/// Fails so often, then answers; notes when it was called.
struct flaky : limits_run {
  int calls = 0;
  int failures = 1'000;
  std::vector<long> at;

  net::awaitable<int> call() {
    at.push_back(ms());
    const int n = ++calls;
    co_await sleep_for(10ms);
    if (n <= failures) throw std::runtime_error{"failure " + std::to_string(n)};
    co_return n;
  }
  auto make() {
    return [this] { return call(); };
  }
};

const retry_policy four{.attempts = 4, .backoff = backoff::constant(100ms)};

struct asks_to_wait : std::runtime_error {
  explicit asks_to_wait(duration d) : std::runtime_error{"429"}, delay{d} {}
  duration delay;
};

TEST_CASE("a retry calls again after a failure, and returns the first result", "[retry]") {
  flaky run;
  run.failures = 2;
  int result = 0;
  run.go([&]() -> net::awaitable<void> { result = co_await retry(run.make(), four); });
  run.time.run();
  CHECK(result == 3);
  CHECK(run.at == std::vector<long>{0, 110, 220});
}

TEST_CASE("a retry without failures calls once", "[retry]") {
  flaky run;
  run.failures = 0;
  int result = 0;
  run.go([&]() -> net::awaitable<void> { result = co_await retry(run.make()); });
  run.time.run();
  CHECK(result == 1);
  CHECK(run.calls == 1);
}

TEST_CASE("the failure of the last attempt is thrown as it is", "[retry]") {
  flaky run;
  std::string said;
  run.go([&]() -> net::awaitable<void> { said = co_await outcome_of_any(retry(run.make(), four)); });
  run.time.run();
  CHECK(said == "failure 4");
  CHECK(run.at == std::vector<long>{0, 110, 220, 330});
}

TEST_CASE("without a number a retry makes three attempts", "[retry]") {
  flaky run;
  std::string said;
  run.go([&]() -> net::awaitable<void> { said = co_await outcome_of_any(retry(run.make())); });
  run.time.run();
  CHECK(said == "failure 3");
  CHECK(run.calls == 3);
}

TEST_CASE("an operation without a result, or with one that can only be moved, can be tried again", "[retry]") {
  limits_run run;
  int calls = 0;
  run.go([&]() -> net::awaitable<void> {
    co_await retry(
        [&]() -> net::awaitable<void> {
          if (++calls < 2) throw std::runtime_error{"once"};
          co_return;
        },
        {.backoff = backoff::constant(1ms)});
    auto p = co_await retry([&]() -> net::awaitable<std::unique_ptr<int>> { co_return std::make_unique<int>(7); });
    CHECK(*p == 7);
  });
  run.time.run();
  CHECK(calls == 2);
}

TEST_CASE("the operation may take the number of the attempt, and what makes it may throw", "[retry]") {
  limits_run run;
  std::vector<std::uint32_t> numbers;
  run.go([&]() -> net::awaitable<void> {
    const auto numbered = [&](std::uint32_t n) {
      numbers.push_back(n);
      if (n < 3) throw std::runtime_error{"not made"};
      return answer_after(1ms);
    };
    const int answer = co_await retry(numbered, four);
    CHECK(answer == 42);
  });
  run.time.run();
  CHECK(numbers == std::vector<std::uint32_t>{1, 2, 3});
}

TEST_CASE("a condition says which failures are worth another attempt", "[retry]") {
  flaky run;
  run.go([&]() -> net::awaitable<void> {
    const retry_policy never{.attempts = 5, .retry_if = [](const std::exception_ptr&) { return false; }};
    const retry_policy broken{.attempts = 5,
                              .retry_if = [](const std::exception_ptr&) -> bool { throw std::logic_error{"broken"}; }};
    const auto first = co_await outcome_of_any(retry(run.make(), never));
    CHECK(first == "failure 1");
    const auto second = co_await outcome_of_any(retry(run.make(), broken));
    CHECK(second == "failure 2");
  });
  run.time.run();
  CHECK(run.calls == 2);
}

TEST_CASE("a condition gives the delay that the other side asked for", "[retry]") {
  flaky run;
  run.go([&]() -> net::awaitable<void> {
    const retry_policy polite{.attempts = 4,
                              .backoff = backoff::constant(100ms),
                              .retry_if = [](const std::exception_ptr& e) -> std::optional<duration> {
                                try {
                                  std::rethrow_exception(e);
                                } catch (const asks_to_wait& a) {
                                  return a.delay;
                                } catch (...) {
                                  return std::nullopt;
                                }
                              }};
    const auto call = [&](std::uint32_t n) -> net::awaitable<void> {
      run.at.push_back(run.ms());
      if (n == 1) throw asks_to_wait{3s};
      if (n == 2) throw asks_to_wait{10ms};  // the backoff is longer
      if (n == 3) throw std::runtime_error{"another"};
      co_return;
    };
    const auto said = co_await outcome_of_any(retry(call, polite));
    CHECK(said == "another");
  });
  run.time.run();
  CHECK(run.at == std::vector<long>{0, 3000, 3100});
}

TEST_CASE("a deadline ends a retry before a wait that would reach it", "[retry]") {
  flaky run;
  std::vector<long> ended;
  run.go([&]() -> net::awaitable<void> {
    const time_point start = run.time.now();
    auto said = co_await outcome_of_any(retry(run.make(), four, start + 220ms));
    CHECK(said == "failure 2");
    ended.push_back(run.ms());  // the third attempt would have begun at the deadline
    const auto late = co_await outcome_of(retry(run.make(), four, start));
    CHECK(late == errc::deadline_unreachable);
    run.calls = 0;
    said = co_await outcome_of_any(retry(run.make(), four, run.time.now() + 221ms));
    CHECK(said == "failure 3");
    ended.push_back(run.ms());
  });
  run.time.run();
  CHECK(ended == std::vector<long>{120, 350});
}

TEST_CASE("a cancelled operation is not tried again", "[retry]") {
  flaky run;
  net::cancellation_signal signal;
  std::error_code ended;
  SECTION("while an attempt runs") {
    run.go([&]() -> net::awaitable<void> { (void)co_await retry(run.make(), four); }, signal, ended);
    run.time.run_for(115ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(ended == net::error::operation_aborted);
    CHECK(run.calls == 2);
  }
  SECTION("while it waits for the next one") {
    run.go([&]() -> net::awaitable<void> { (void)co_await retry(run.make(), four); }, signal, ended);
    run.time.run_for(50ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.poll();
    CHECK(ended == net::error::operation_aborted);
    run.time.run();
    CHECK(run.calls == 1);
  }
  SECTION("whatever it makes of its cancellation, and whatever the condition says") {
    const retry_policy always{.attempts = 4, .retry_if = [](const std::exception_ptr&) { return true; }};
    run.go(
        [&]() -> net::awaitable<void> {
          co_await retry(
              [&]() -> net::awaitable<void> {
                ++run.calls;
                using namespace net::experimental::awaitable_operators;
                co_await (sleep_for(1h) || sleep_for(2h));
              },
              always);
        },
        signal, ended);
    run.time.run_for(50ms);
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(ended);
    CHECK(run.calls == 1);
  }
  SECTION("also if only the operation was") {
    const retry_policy always{.attempts = 4, .retry_if = [](const std::exception_ptr&) { return true; }};
    run.go([&]() -> net::awaitable<void> {
      ended = co_await outcome_of(retry(
          [&]() -> net::awaitable<void> {
            ++run.calls;
            throw std::system_error{net::error::operation_aborted};
            co_return;
          },
          always));
    });
    run.time.run();
    CHECK(ended == net::error::operation_aborted);
    CHECK(run.calls == 1);
  }
}

TEST_CASE("an attempt queues again, behind those that have come", "[retry]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(10)}};
  int calls = 0;
  run.go([&]() -> net::awaitable<void> {
    co_await retry(
        [&] {
          return with_limit(
              [](limits_run& r, int& n) -> net::awaitable<void> {
                r.note("call " + std::to_string(++n));
                if (n == 1) throw std::runtime_error{"once"};
                co_return;
              }(run, calls),
              s);
        },
        {.backoff = backoff::constant(0ms)});
  });
  for (int i = 0; i < 2; ++i) {
    run.go([&]() -> net::awaitable<void> {
      co_await s.acquire();
      run.note("other");
    });
  }
  run.time.run();
  CHECK(run.log == log_lines{"call 1@100", "other@200", "other@300", "call 2@400"});
}

TEST_CASE("a budget bounds the retries of all callers", "[retry]") {
  limits_run run;
  retry_budget budget{{.percent = 50, .reserve = 2, .most = 10}};
  int calls = 0;
  for (int i = 0; i < 10; ++i) {
    run.go([&]() -> net::awaitable<void> {
      (void)co_await outcome_of(retry(
          [&]() -> net::awaitable<void> {
            ++calls;
            throw std::runtime_error{"no"};
            co_return;
          },
          {.attempts = 5, .backoff = backoff::constant(1ms), .budget = &budget}));
    });
  }
  run.time.run();
  CHECK(calls == 10 + 7);  // two in reserve, and half of ten
}

TEST_CASE("a retry that nobody starts calls nothing, and pays nothing into the budget", "[retry]") {
  flaky run;
  retry_budget budget{{.percent = 1000, .reserve = 2, .most = 100}};
  {
    const auto unstarted = retry(run.make(), {.budget = &budget});
  }
  run.time.run();
  CHECK(run.calls == 0);
  CHECK(budget.left() == 2);
}

TEST_CASE("a policy that can't be is refused by its field, value and range", "[retry]") {
  flaky run;
  std::string said;
  run.go([&]() -> net::awaitable<void> {
    said = co_await outcome_of_any(retry(run.make(), {.backoff = {.first = -1s}}));
  });
  run.time.run();
  CHECK(said.starts_with("retry_policy.backoff.first is -1s; allowed: 0 or more"));
  CHECK(run.calls == 0);
}

TEST_CASE("those that fail at the same instant wait for different times, the same ones in each run", "[retry]") {
  const auto starts = [] {
    limits_run run;
    std::vector<duration> at;
    for (int i = 0; i < 20; ++i) {
      run.go([&]() -> net::awaitable<void> {
        (void)co_await outcome_of(retry(
            [&](std::uint32_t n) -> net::awaitable<void> {
              if (n == 2) at.push_back(run.time.elapsed());
              throw std::runtime_error{"no"};
              co_return;
            },
            {.attempts = 2}));
      });
    }
    run.time.run();
    return at;
  };
  const auto first = starts();
  CHECK(std::set<duration>(first.begin(), first.end()).size() == 20);
  CHECK(starts() == first);
}

TEST_CASE("a context that goes takes a retry along, in an attempt or between two", "[retry]") {
  for (const duration d : {5ms, 50ms}) {
    auto run = std::make_unique<flaky>();
    bool is_gone = false;
    const auto at_end = [&](bool* b) { return std::shared_ptr<bool>{b, [](bool* flag) { *flag = true; }}; };
    run->go([&r = *run, mark = at_end(&is_gone)]() -> net::awaitable<void> { (void)co_await retry(r.make(), four); });
    run->time.run_for(d);
    CHECK_FALSE(is_gone);
    run.reset();
    CHECK(is_gone);
  }
}

}  // namespace retry_test
