#include "canigo/retry_policy.hpp"

#include "canigo/strand_pool.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <optional>
#include <stdexcept>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;
using namespace pool_run;

TEST_CASE("a timed out attempt is followed by another one only when it has ended") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 2}};
  std::vector<long> starts;
  int inside = 0;
  auto t = pool.submit(
      [&](task_context&) -> net::awaitable<void> {
        CHECK(++inside == 1);
        starts.push_back(b.ms());
        co_await stubborn(70ms);
        --inside;
        throw std::runtime_error{"late"};
      },
      {.timeout = 50ms, .retry = {.attempts = 3, .backoff = backoff::constant(10ms)}});
  b.time.run();
  CHECK(starts == std::vector<long>{0, 80, 160});
  CHECK(t.state() == task_state::timed_out);
  CHECK(b.ms() == 230);
}

TEST_CASE("what a pool prescribes counts for operations that ask for nothing else") {
  bench_top b;
  strand_pool pool{b.io,
                   {.concurrency = 2, .timeout = 50ms, .retry = {.attempts = 2, .backoff = backoff::constant(10ms)}}};
  std::vector<long> starts;
  auto late = pool.submit([&](task_context&) -> net::awaitable<void> {
    starts.push_back(b.ms());
    co_await sleep_for(1h);
  });
  auto own = pool.submit([](task_context&) { return sleep_for(70ms); }, {.timeout = 100ms, .retry = {.attempts = 1}});
  b.time.run();
  CHECK(starts == std::vector<long>{0, 60});
  CHECK(late.state() == task_state::timed_out);
  CHECK(own.state() == task_state::succeeded);

  strand_pool patient{b.io, {.concurrency = 1, .retry = {.attempts = 3, .backoff = backoff::constant(0s)}}};
  int tries = 0;
  const auto fails_twice = [&tries](task_context& t) {
    ++tries;
    if (t.attempt() < 3) throw std::runtime_error{"no"};
  };
  auto at_once = patient.submit(fails_twice);
  auto in_time = patient.submit(fails_twice, {.deadline = b.time.now() + 1h});
  b.time.run_for(0s);
  CHECK(tries == 6);
  CHECK(at_once.state() == task_state::succeeded);
  CHECK(in_time.state() == task_state::succeeded);
}

TEST_CASE("an operation that ends with operation_aborted unasked has failed, and may be tried again") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  int tries = 0;
  auto t = pool.submit(
      [&] {
        ++tries;
        throw std::system_error{net::error::operation_aborted};
      },
      {.retry = {.attempts = 3, .backoff = backoff::constant(1ms), .retry_if = [](const std::exception_ptr&) {
                   return true;
                 }}});
  b.time.run();
  CHECK(tries == 3);
  CHECK(t.state() == task_state::failed);
}

TEST_CASE("a predicate may give the least delay before the next attempt") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  std::vector<long> at;
  (void)pool.try_post(
      [&] {
        at.push_back(b.ms());
        throw std::runtime_error{"no"};
      },
      {.retry = {.attempts = 3,
                 .backoff = backoff::constant(10ms),
                 .retry_if = [](const std::exception_ptr&) -> std::optional<duration> { return 2s; }}});
  b.time.run();
  CHECK(at == std::vector<long>{0, 2000, 4000});
}

TEST_CASE("retries are refused by the predicate and by the budget") {
  bench_top b;
  strand_pool pool{b.io, {.concurrency = 1}};
  int tries = 0;
  (void)pool.try_post(
      [&] {
        ++tries;
        throw std::runtime_error{"no"};
      },
      {.retry = {.attempts = 5, .retry_if = [](const std::exception_ptr&) { return false; }}});
  b.time.run();
  CHECK(tries == 1);
  retry_budget budget{{.percent = 50, .reserve = 2, .most = 10}};
  tries = 0;
  for (int i = 0; i < 10; ++i) {
    (void)pool.try_post(
        [&] {
          ++tries;
          throw std::runtime_error{"no"};
        },
        {.retry = {.attempts = 5, .backoff = backoff::constant(1ms), .budget = &budget}});
  }
  b.time.run();
  CHECK(tries == 10 + 7);  // two in reserve, and half of ten
}
