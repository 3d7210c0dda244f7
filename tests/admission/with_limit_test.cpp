#include "canigo/with_limit.hpp"

#include "canigo/adaptive_limit.hpp"
#include "canigo/cancel.hpp"
#include "canigo/error.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/this_coro.hpp>

#include <algorithm>
#include <memory>
#include <optional>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Takes `d`, and does not end before that when it is cancelled.
net::awaitable<void> deaf(duration d) {
  co_await net::this_coro::throw_if_cancelled(false);
  const time_point end = time_source::of(co_await net::this_coro::executor).now() + d;
  co_await outcome_of(sleep_until(end));
  co_await net::this_coro::reset_cancellation_state();
  co_await sleep_until(end);
  throw std::system_error{net::error::operation_aborted};
}

/// A limit of a user's own, whose permits can be taken away.
class lease {
 public:
  lease() = default;
  explicit lease(std::shared_ptr<cancel_source> end) : end_{std::move(end)} {}
  lease(lease&&) = default;
  lease& operator=(lease&&) = default;

  void release() { end_.reset(); }
  std::uint64_t held() const noexcept { return end_ ? 1 : 0; }
  explicit operator bool() const noexcept { return end_ != nullptr; }
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T> op) const {
    return end_->wrap(std::move(op));
  }

 private:
  std::shared_ptr<cancel_source> end_;
};

class leases {
 public:
  explicit leases(const net::any_io_executor& e) : executor_{e} {}

  net::awaitable<lease> acquire(request) { co_return lease{end}; }
  template <class Token>
  void async_acquire(request, Token&&) {}
  std::optional<lease> try_acquire(request) { return lease{end}; }
  void pause_until(time_point) {}
  void pause() {}
  void resume() {}
  queue_stats stats() const { return {}; }
  void stop() noexcept {}
  net::any_io_executor get_executor() const { return executor_; }

  std::shared_ptr<cancel_source> end = std::make_shared<cancel_source>();

 private:
  net::any_io_executor executor_;
};

static_assert(limit<leases> && revocable_permit<lease>);

}  // namespace

TEST_CASE("with_limit runs an operation when it is let go, and gives the permit back when it has ended") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1}};
  const auto work = [&]() -> net::awaitable<void> {
    const int n = co_await with_limit(answer_after(100ms), slots);
    run.note(std::to_string(n));
    CHECK(slots.stats().waiting + slots.stats().held <= 2);
  };
  for (int i = 0; i < 3; ++i) run.go(work);
  run.time.run_for(50ms);
  CHECK(slots.stats().held == 1);
  CHECK(slots.stats().waiting == 2);
  run.time.run();
  CHECK(run.log == log_lines{"42@100", "42@200", "42@300"});
  CHECK(slots.stats().held == 0);
}

TEST_CASE("with_limit lets through what the operation throws, and gives the permit back") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1}};
  std::string said;
  run.go([&]() -> net::awaitable<void> {
    const auto fails = []() -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw std::runtime_error{"broken"};
    };
    said = co_await outcome_of_any(with_limit(fails(), slots));
    CHECK(slots.stats().held == 0);
  });
  run.time.run();
  CHECK(said == "broken");
}

TEST_CASE("with_limit does not start what is not let go") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1, .priorities = 2}};
  scheduler quota{run.io, {.rate = rate::per_second(1)}};
  bool started = false;
  const auto op = [&]() -> net::awaitable<void> {
    started = true;
    co_return;
  };
  std::error_code by_slots, by_quota, by_caller;
  net::cancellation_signal signal;
  run.go([&]() -> net::awaitable<void> { by_slots = co_await outcome_of(with_limit(op(), slots, {.priority = 2})); });
  run.go([&]() -> net::awaitable<void> {
    by_quota = co_await outcome_of(with_limit(op(), quota, {.deadline = run.time.now() + 500ms}));
  });
  run.go([&]() -> net::awaitable<void> { co_await with_limit(op(), quota); }, signal, by_caller);
  run.time.run_for(500ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(by_slots == errc::invalid_priority);
  CHECK(by_quota == errc::deadline_unreachable);
  CHECK(by_caller == net::error::operation_aborted);
  CHECK_FALSE(started);
  CHECK(quota.stats().granted == 0);
}

TEST_CASE("a permit is out until a cancelled operation has really ended") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1}};
  std::error_code ended;
  net::cancellation_signal signal;
  run.go([&]() -> net::awaitable<void> { co_await with_limit(deaf(300ms), slots); }, signal, ended);
  run.go([&]() -> net::awaitable<void> {
    co_await with_limit(sleep_for(0ms), slots);
    run.note("next");
  });
  run.time.run_for(100ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.run_for(100ms);
  CHECK(slots.stats().held == 1);
  run.time.run();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.log == log_lines{"next@300"});
}

TEST_CASE("with_timeout counts the wait for a limit outside of it, and does not inside") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1}};
  run.go([&]() -> net::awaitable<void> { co_await with_limit(sleep_for(300ms), slots); });
  std::error_code outside, inside;
  run.go([&]() -> net::awaitable<void> {
    outside = co_await outcome_of(with_timeout(with_limit(answer_after(100ms), slots), 200ms));
    run.note("outside");
  });
  run.go([&]() -> net::awaitable<void> {
    inside = co_await outcome_of(with_limit(with_timeout(answer_after(100ms), 200ms), slots));
    run.note("inside");
  });
  run.time.run();
  CHECK(outside == errc::timed_out);
  CHECK_FALSE(inside);
  CHECK(run.log == log_lines{"outside@200", "inside@400"});
}

TEST_CASE("with_limits asks one limit after the other, a cap for a place and a quota for the tokens") {
  limits_run run;
  semaphore slots{run.io, {.permits = 1}};
  scheduler quota{run.io, {.rate = rate::per_second(1000), .burst = 100}};
  limiter day{run.io, {.rates = {{rate::per_second(1000), 200, 200}}}};
  run.go([&]() -> net::awaitable<void> {
    const int n = co_await with_limits(answer_after(10ms), std::tie(slots, quota, day), {.tokens = 100});
    run.note(std::to_string(n));
  });
  run.time.run_for(50ms);
  CHECK(slots.stats().held == 1);
  CHECK(quota.stats().waiting == 1);
  CHECK(day.stats().granted == 0);
  run.time.run();
  CHECK(run.log == log_lines{"42@110"});
  CHECK(slots.stats().held == 0);
  CHECK(day.stats().tokens == std::vector<std::int64_t>{200 - 100 + 10});
}

TEST_CASE("a limiter gets back every unit if a later limit does not let the operation go") {
  limits_run run;
  limiter model{run.io, {.rates = {{rate::per_hour(1), 10, 10, "requests"}, {rate::per_hour(1), 100, 100, "tokens"}}}};
  semaphore slots{run.io, {.permits = 1}};
  permit taken = slots.try_acquire().value();
  std::error_code refused;
  run.go([&]() -> net::awaitable<void> {
    const request r{.tokens = 3, .deadline = run.time.now() + 1s, .amounts = {{"tokens", 40}}};
    refused = co_await outcome_of(with_limits(answer_after(1ms), std::tie(model, slots), r));
    CHECK(model.stats().tokens == std::vector<std::int64_t>{10, 100});
    taken.release();
    co_await with_limits(answer_after(1ms), std::tie(model, slots), {.tokens = 3, .amounts = {{"tokens", 40}}});
    CHECK(model.stats().tokens == std::vector<std::int64_t>{7, 60});
  });
  run.time.run();
  CHECK(refused == errc::timed_out);
}

TEST_CASE("an adaptive limit learns nothing from a call that a later limit did not let go") {
  limits_run run;
  adaptive_limit upstream{run.io, {.initial = 5}};
  semaphore slots{run.io, {.permits = 1}};
  const permit taken = slots.try_acquire().value();
  std::error_code refused;
  run.go([&]() -> net::awaitable<void> {
    refused = co_await outcome_of(
        with_limits(answer_after(1ms), std::tie(upstream, slots), {.deadline = run.time.now() + 1s}));
  });
  run.time.run();
  CHECK(refused == errc::timed_out);
  CHECK(upstream.stats().dropped == 0);
  CHECK(upstream.stats().held == 0);
}

TEST_CASE("tokens go back if a later limit does not let the operation go, and not if it has run") {
  limits_run run;
  scheduler quota{run.io, {.rate = rate::per_hour(1), .burst = 10, .initial_tokens = 10}};
  semaphore slots{run.io, {.permits = 1}};
  const permit taken = slots.try_acquire().value();
  std::error_code refused, failed;
  run.go([&]() -> net::awaitable<void> {
    refused = co_await outcome_of(
        with_limits(answer_after(1ms), std::tie(quota, slots), {.tokens = 4, .deadline = run.time.now() + 1s}));
    CHECK(quota.stats().tokens == 10);
    const auto fails = []() -> net::awaitable<int> {
      throw std::system_error{make_error_code(errc::too_large)};
      co_return 0;
    };
    semaphore others{run.io, {.permits = 1}};
    failed = co_await outcome_of(with_limits(fails(), std::tie(quota, others), {.tokens = 4}));
  });
  run.time.run();
  CHECK(refused == errc::timed_out);
  CHECK(failed == errc::too_large);
  CHECK(quota.stats().tokens == 6);
  std::error_code too_large;
  run.go([&]() -> net::awaitable<void> {
    too_large = co_await outcome_of(with_limits(answer_after(1ms), std::tie(quota, slots), {.tokens = 11}));
  });
  run.time.poll();
  CHECK(too_large == errc::too_large);
  CHECK(quota.stats().tokens == 6);  // what was not given does not come back
}

TEST_CASE("a permit that is lost cancels the operation, also while that waits for the next limit") {
  limits_run run;
  leases places{run.io.get_executor()};
  scheduler quota{run.io, {.rate = rate::per_second(1)}};
  std::error_code running, waiting;
  run.go([&]() -> net::awaitable<void> {
    running = co_await outcome_of(with_limit(answer_after(10s), places));
    run.note("running");
  });
  run.go([&]() -> net::awaitable<void> {
    waiting = co_await outcome_of(with_limits(answer_after(1ms), std::tie(places, quota)));
    run.note("waiting");
  });
  run.time.run_for(100ms);
  places.end->cancel();
  run.time.run();
  CHECK(running == net::error::operation_aborted);
  CHECK(waiting == net::error::operation_aborted);
  std::sort(run.log.begin(), run.log.end());
  CHECK(run.log == log_lines{"running@100", "waiting@100"});
  CHECK(quota.stats().granted == 0);
}

TEST_CASE("tasks of a pool are admitted by a limit") {
  limits_run run;
  strand_pool pool{run.io, {.concurrency = 4}};
  semaphore slots{run.io, {.permits = 2}};
  for (int i = 0; i < 4; ++i) {
    run.go([&]() -> net::awaitable<void> {
      const int n = co_await pool.run([&] { return with_limit(answer_after(100ms), slots); });
      run.note(std::to_string(n));
    });
  }
  run.time.run();
  CHECK(run.log == log_lines{"42@100", "42@100", "42@200", "42@200"});
}
