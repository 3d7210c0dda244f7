// What an operation makes of its cancellation: `a || b` throws both errors as one exception, a channel has an error of
// its own. It has ended for the limit, the source, the group or the pool that cancelled it all the same.

#include "canigo/cancel.hpp"
#include "canigo/cancel_after.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/pool_run.hpp"

#include <asio/async_result.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/experimental/channel.hpp>
#include <asio/use_awaitable.hpp>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;
using pool_run::bench_top;

namespace {

using int_channel = net::experimental::channel<void(std::error_code, int)>;

net::awaitable<void> either_of_two() {
  using namespace net::experimental::awaitable_operators;
  co_await (sleep_for(1h) || sleep_for(2h));
}

net::awaitable<void> receive_nothing() {
  int_channel c{co_await net::this_coro::executor, 0};
  co_await c.async_receive(net::use_awaitable);
}

net::awaitable<void> throws_something_else() {
  try {
    co_await sleep_for(1h);
  } catch (const std::system_error&) {
  }
  throw std::runtime_error{"closed"};
}

net::awaitable<int> has_a_result_late() {
  co_await pool_run::stubborn(5s);
  co_return 42;
}

using composed_operation = net::awaitable<void> (*)();
const std::vector<composed_operation> composed_operations{either_of_two, receive_nothing, throws_something_else};

/// Fails once it has cleaned up after its cancellation, which takes longer than any limit here.
net::awaitable<void> cleans_up_for_long() {
  co_await pool_run::stubborn(20s);
  throw std::runtime_error{"cleaned up"};
}

net::awaitable<void> breaks_after(duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{"broken"};
}

std::string told_as(const std::exception_ptr& e) {
  try {
    if (e) std::rethrow_exception(e);
    return "result";
  } catch (const std::system_error& error) {
    return error.code() == errc::timed_out                 ? "timed_out"
           : error.code() == net::error::operation_aborted ? "aborted"
                                                           : error.code().message();
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// What became of each of those that were started.
struct composed_outcomes : limits_run {
  template <class T>
  void start(net::awaitable<T> op) {
    net::co_spawn(io, std::move(op), [this](const std::exception_ptr& e, auto...) { all.push_back(told_as(e)); });
  }
  std::vector<std::string> all;
};

}  // namespace

TEST_CASE("a composed operation over its time ends with timed_out", "[composed_cancel]") {
  composed_outcomes run;
  for (const composed_operation op : composed_operations) {
    run.start(with_timeout(op(), 2s));
    run.start(with_deadline(op(), time_point{2s}));
    run.start(with_timeout(with_timeout(op(), 30s), 2s));  // the inner one has not fired
    run.start(with_timeout(with_timeout(op(), 2s), 30s));
  }
  run.time.run();
  CHECK(run.all == std::vector<std::string>(composed_operations.size() * 4, "timed_out"));
  CHECK(run.time.elapsed() == 2s);
}

TEST_CASE("a composed operation whose source is cancelled ends with operation_aborted", "[composed_cancel]") {
  composed_outcomes run;
  cancel_source stop;
  for (const composed_operation op : composed_operations) {
    run.start(stop.wrap(op()));
    run.start(stop.wrap(with_timeout(op(), 1h)));
    run.start(with_timeout(stop.wrap(op()), 1h));
  }
  run.time.run_for(1s);
  CHECK(run.all.empty());
  stop.cancel();
  run.time.run();
  CHECK(run.all == std::vector<std::string>(composed_operations.size() * 3, "aborted"));
}

TEST_CASE("what failed before its limit or its source has fired keeps its error, and a result stays one",
          "[composed_cancel]") {
  composed_outcomes run;
  cancel_source stop;
  SECTION("before") {
    run.start(with_timeout(breaks_after(1s), 2s));
    run.start(stop.wrap(breaks_after(1s)));
    run.time.run_for(1s);
    stop.cancel();
    run.time.run();
    CHECK(run.all == std::vector<std::string>(2, "broken"));
  }
  SECTION("a late result") {
    run.start(with_timeout(has_a_result_late(), 2s));
    run.start(stop.wrap(has_a_result_late()));
    run.time.run_for(1s);
    stop.cancel();
    run.time.run();
    CHECK(run.all == std::vector<std::string>(2, "result"));
  }
  SECTION("the caller is cancelled, no limit of ours: what it makes of that is its own") {
    net::cancellation_signal signal;
    net::co_spawn(run.io, with_timeout(throws_something_else(), 1h),
                  net::bind_cancellation_slot(signal.slot(),
                                              [&](const std::exception_ptr& e) { run.all.push_back(told_as(e)); }));
    run.time.run_for(1s);
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(run.all == std::vector<std::string>{"closed"});
  }
}

TEST_CASE("what is cancelled before its time is up, and cleans up for longer, has not timed out", "[composed_cancel]") {
  composed_outcomes run;
  cancel_source stop;
  net::cancellation_signal signal;
  net::co_spawn(
      run.io, with_timeout(cleans_up_for_long(), 2s),
      net::bind_cancellation_slot(signal.slot(), [&](const std::exception_ptr& e) { run.all.push_back(told_as(e)); }));
  run.time.run_for(1s);
  SECTION("by its caller, whose cancellation it may throw as it likes") {
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(run.all == std::vector<std::string>{"cleaned up"});
  }
  SECTION("by its caller, in a way that it need not heed") {
    signal.emit(net::cancellation_type::total);
    run.time.run();
    CHECK(run.all == std::vector<std::string>{"timed_out"});
  }
  SECTION("by a source") {
    run.start(with_timeout(stop.wrap(cleans_up_for_long()), 2s));  // the source inside is not its own
    run.start(stop.wrap(with_timeout(cleans_up_for_long(), 1s)));
    run.time.run_for(500ms);
    stop.cancel();
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(run.all == std::vector<std::string>{"cleaned up", "timed_out", "aborted"});
  }
}

TEST_CASE("an Asio operation that is cancelled before its time is up has not timed out", "[composed_cancel]") {
  limits_run run;
  net::cancellation_signal signal;
  std::function<void(std::error_code)> end;
  std::error_code error;
  const auto slow = [&end](auto&& token) {
    return net::async_initiate<decltype(token), void(std::error_code)>(
        [&end](auto handler) {
          end = [h = std::make_shared<decltype(handler)>(std::move(handler))](std::error_code e) { std::move (*h)(e); };
        },
        token);
  };
  slow(canigo::cancel_after(2s, net::bind_cancellation_slot(
                                    signal.slot(), net::bind_executor(run.io, [&](std::error_code e) { error = e; }))));
  SECTION("cancelled first") {
    signal.emit(net::cancellation_type::terminal);
    run.time.run_for(3s);
    end(net::error::eof);
    CHECK(error == net::error::eof);
  }
  SECTION("late first") {
    run.time.run_for(3s);
    signal.emit(net::cancellation_type::terminal);
    end(net::error::eof);
    CHECK(error == errc::timed_out);
  }
}

TEST_CASE("an Asio operation that has an error of its own for a cancellation times out", "[composed_cancel]") {
  limits_run run;
  int_channel c{run.io.get_executor(), 0};
  std::error_code error;
  c.async_receive(canigo::cancel_after(2s, net::bind_executor(run.io, [&](std::error_code e, int) { error = e; })));
  run.time.run();
  CHECK(error == errc::timed_out);
  CHECK(run.time.elapsed() == 2s);

  c.async_receive(canigo::cancel_after(2s, net::bind_executor(run.io, [&](std::error_code e, int) { error = e; })));
  run.time.run_for(1s);
  c.close();
  run.time.run();
  CHECK(error != errc::timed_out);
  CHECK(error);
}

TEST_CASE("composed children of a group that is cancelled have failed with operation_aborted", "[composed_cancel]") {
  limits_run run;
  task_group group{run.io};
  std::vector<std::string> all;
  SECTION("by its owner") {
    run.go([&]() -> net::awaitable<void> {
      for (const composed_operation op : composed_operations) group.spawn(op());
      co_await sleep_for(1s);
      group.cancel();
      const auto errors = co_await group.wait_all();
      for (const auto& e : errors) all.push_back(told_as(e));
    });
    run.time.run();
    CHECK(all == std::vector<std::string>(composed_operations.size(), "aborted"));
  }
  SECTION("join tells of that, too") {
    run.go([&]() -> net::awaitable<void> {
      group.spawn(either_of_two());
      co_await sleep_for(1s);
      group.cancel();
      const auto ec = co_await outcome_of(group.join());
      all.push_back(ec == net::error::operation_aborted ? "aborted" : ec.message());
    });
    run.time.run();
    CHECK(all == std::vector<std::string>{"aborted"});
  }
  SECTION("as one of them fails: that error is told, and theirs is not") {
    run.go([&]() -> net::awaitable<void> {
      const auto a = group.spawn(either_of_two());
      group.spawn(breaks_after(1s));
      const auto text = co_await outcome_of_any(group.join());
      all.push_back(text);
      try {
        a.get();
      } catch (...) {
        all.push_back(told_as(std::current_exception()));
      }
    });
    run.time.run();
    CHECK(all == std::vector<std::string>{"broken", "aborted"});
  }
}

namespace {

/// One pool, what runs in it, and what its caller is told.
struct composed_pool : bench_top {
  explicit composed_pool(const strand_pool_options& o = {.concurrency = 4}) : pool{io, o} {}

  task<void> start(composed_operation op, const task_options& o = {}) {
    return pool.submit([op](task_context&) { return op(); }, o);
  }
  std::string told(const task<void>& t) {
    std::string text = "nothing";
    t.async_wait([&text](const std::exception_ptr& e) { text = told_as(e); });
    time.poll();
    return text;
  }
  strand_pool pool;
};

}  // namespace

TEST_CASE("a composed task of a pool over its time has timed out", "[composed_cancel]") {
  composed_pool b;
  for (const composed_operation op : composed_operations) {
    const auto t = b.start(op, {.timeout = 2s});
    b.time.run();
    CHECK(t.state() == task_state::timed_out);
    CHECK(b.told(t) == "timed_out");
  }
  CHECK(b.ms() == 2000 * static_cast<long>(composed_operations.size()));
  CHECK(b.pool.stats().timed_out == composed_operations.size());
  CHECK(b.pool.stats().failed == 0);
}

TEST_CASE("a composed task that is cancelled is cancelled", "[composed_cancel]") {
  composed_pool b;
  for (const composed_operation op : composed_operations) {
    auto t = b.start(op, {.timeout = 1h});
    auto plain = b.start(op);
    b.time.run_for(1s);
    CHECK(t.cancel());
    CHECK(plain.cancel());
    b.time.run_for(1s);
    CHECK(t.state() == task_state::cancelled);
    CHECK(plain.state() == task_state::cancelled);
    CHECK(b.told(t) == "aborted");
  }
  CHECK(b.pool.stats().cancelled == 2 * composed_operations.size());
}

TEST_CASE("a task is ended by what asked it first", "[composed_cancel]") {
  composed_pool b;
  auto cancelled = b.start(cleans_up_for_long, {.timeout = 2s});
  auto late = b.start(cleans_up_for_long, {.timeout = 2s});
  b.time.run_for(1s);
  CHECK(cancelled.cancel());
  b.time.run_for(2s);
  CHECK(late.state() == task_state::timed_out);
  CHECK(cancelled.state() == task_state::cancelled);
  CHECK(b.told(cancelled) == "aborted");
  b.time.run();
  CHECK(b.pool.stats().cancelled == 1);
  CHECK(b.pool.stats().timed_out == 1);
}

TEST_CASE("stop(cancel_all) counts composed operations as cancelled", "[composed_cancel]") {
  composed_pool b;
  const auto stop = GENERATE(true, false);  // or the grace is over
  std::vector<task<void>> tasks;
  for (const composed_operation op : composed_operations) tasks.push_back(b.start(op));
  stop_report report;
  b.spawn([&]() -> net::awaitable<void> {
    co_await sleep_for(1s);
    report = co_await b.pool.stop(stop ? stop_mode::cancel_all : stop_mode::finish_running, 1s);
  });
  b.time.run();
  CHECK(report.submitted == composed_operations.size());
  CHECK(report.cancelled == composed_operations.size());
  CHECK(report.failed == 0);
  for (const auto& t : tasks) CHECK(t.state() == task_state::cancelled);
}

TEST_CASE("a task that fails before it is cancelled, late or stopped has failed; a result is one",
          "[composed_cancel]") {
  composed_pool b;
  const auto failed = b.pool.submit([](task_context&) { return breaks_after(1s); }, {.timeout = 1001ms});
  auto has_result = b.pool.submit([](task_context&) { return has_a_result_late(); });
  b.time.run_for(2s);
  CHECK(failed.state() == task_state::failed);
  has_result.cancel();
  b.time.run();
  CHECK(has_result.state() == task_state::succeeded);
}

TEST_CASE("a short operation that gives up as it is asked to has been cancelled", "[composed_cancel]") {
  composed_pool b{{.concurrency = 1}};
  std::optional<task<void>> t;
  t = b.pool.submit([&](task_context& c) {
    t->cancel();
    if (c.stop_requested()) throw std::runtime_error{"gave up"};
  });
  b.time.run();
  CHECK(t->state() == task_state::cancelled);
}

TEST_CASE("a composed attempt over its time is tried again as one that timed out", "[composed_cancel]") {
  composed_pool b;
  for (const composed_operation op : composed_operations) {
    static std::vector<std::string> asked;
    asked.clear();
    retry_policy retry{.attempts = 3, .backoff = backoff::constant(1s)};
    SECTION("whatever fails") {}
    SECTION("where a predicate says so") {
      retry.retry_if = [](const std::exception_ptr& e) {
        asked.push_back(told_as(e));
        return true;
      };
    }
    const auto t = b.start(op, {.timeout = 2s, .retry = retry});
    const auto before = b.time.now();
    b.time.run();
    CHECK(t.state() == task_state::timed_out);
    CHECK(b.time.now() - before == 8s);
    if (retry.retry_if) CHECK(asked == std::vector<std::string>(2, "timed_out"));
  }
}

TEST_CASE("an operation that its own source cancels has not timed out, and is not tried again unasked",
          "[composed_cancel]") {
  composed_pool b;
  static std::vector<std::string> asked;
  asked.clear();
  int attempts = 0;
  retry_policy retry{.attempts = 3, .backoff = backoff::constant(1s)};
  const auto cancels_itself = [&attempts](task_context&) -> net::awaitable<void> {
    ++attempts;
    cancel_source own;
    own.cancel();
    co_await own.wrap(either_of_two());
  };
  SECTION("by default") {
    const auto t = b.pool.submit(cancels_itself, {.timeout = 1h, .retry = retry});
    b.time.run();
    CHECK(attempts == 1);
    CHECK(t.state() == task_state::failed);
    CHECK(b.told(t) == "aborted");
  }
  SECTION("a predicate is shown what it is") {
    retry.retry_if = [](const std::exception_ptr& e) {
      asked.push_back(told_as(e));
      return asked.size() < 2;
    };
    const auto t = b.pool.submit(cancels_itself, {.timeout = 1h, .retry = retry});
    b.time.run();
    CHECK(attempts == 2);
    CHECK(asked == std::vector<std::string>{"aborted", "aborted"});
    CHECK(t.state() == task_state::failed);
  }
  SECTION("nor asked about once its owner has cancelled it") {
    retry.retry_if = [](const std::exception_ptr& e) {
      asked.push_back(told_as(e));
      return true;
    };
    auto t = b.start(either_of_two, {.timeout = 1h, .retry = retry});
    b.time.run_for(1s);
    t.cancel();
    b.time.run();
    CHECK(asked.empty());
    CHECK(t.state() == task_state::cancelled);
  }
}
