// What is under way when an execution context goes, and what begins while it does: it is destroyed, and nothing is
// called.

#include "canigo/cancel_after.hpp"
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/time_source.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/pool_run.hpp"

#include <asio/async_result.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

using namespace std::chrono_literals;
using namespace canigo;
using pool_run::adds_up;
using pool_run::last_words;
using pool_run::until;

namespace {

/// A context in virtual time, and how many of those that hold `alive` are left.
struct stage {
  stage() { time.emplace(*io); }
  void end() {
    time.reset();
    io.reset();
  }
  template <class F>
  void spawn(F f) {
    net::co_spawn(*io, std::move(f), net::detached);
  }

  std::unique_ptr<net::io_context> io = std::make_unique<net::io_context>();
  std::optional<testing::virtual_time> time;
  std::shared_ptr<int> alive = std::make_shared<int>();
};

/// While the context goes: what was posted and never run goes last of all.
void when_time_goes(stage& s, std::function<void()> f) {
  net::post(*s.io, [w = last_words{std::move(f)}] { FAIL("it was run"); });
}

/// An operation that keeps its handler in `kept`, and never ends.
template <class Token>
auto async_never(std::shared_ptr<void>& kept, Token&& token) {
  return net::async_initiate<Token, void(std::error_code)>(
      [&kept](auto handler) { kept = std::make_shared<decltype(handler)>(std::move(handler)); }, token);
}

}  // namespace

TEST_CASE("all that waits goes with its context", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  limiter quota{*s.io, {.rates = {{rate::per_hour(1), 1}}}};
  task_group group{*s.io};
  strand_pool pool{*s.io, {.concurrency = 3, .restart = {.limit = 9, .backoff = backoff::constant(1h)}}};
  strand_pool stopping{*s.io, {.concurrency = 1}};
  resource_pool<int> resources{*s.io, {.concurrency = 1, .make = [] { return 1; }, .idle_timeout = 1h}};
  const permit taken = places.try_acquire().value();
  const auto never = [alive = s.alive](auto&&...) { FAIL("it was called"); };
  places.async_acquire({.deadline = s.time->now() + 1h}, never);
  quota.async_acquire({.deadline = s.time->now() + 2h}, never);
  std::shared_ptr<void> kept;
  async_never(kept, canigo::cancel_after(1h, net::bind_executor(*s.io, never)));
  s.spawn([&, alive = s.alive]() -> net::awaitable<void> { (void)co_await with_timeout(places.acquire(), 1h); });
  group.spawn([](std::shared_ptr<int>) -> net::awaitable<void> { co_await sleep_for(1h); }(s.alive));
  const auto slow = [alive = s.alive](task_context&) { return sleep_for(1h); };
  pool.async_run(slow, {.timeout = 1h}, never);
  pool.async_run([alive = s.alive] {}, {.delay = 1h}, never);
  auto breaks = pool.submit([alive = s.alive](task_context&) -> net::awaitable<void> {
    co_await sleep_for(1ms);
    throw fatal_error{"the worker is to rest"};
  });
  (void)resources.try_post([alive = s.alive](int&) {});
  s.time->run_for(1s);
  CHECK(breaks.state() == task_state::failed);
  CHECK(resources.stats().resources == 1);
  stopping.async_run(slow, {}, never);
  s.time->poll();
  stopping.request_stop(stop_mode::finish_running, 1h);
  s.time->run_for(1s);
  CHECK(s.alive.use_count() > 10);
  s.end();
  kept.reset();
  CHECK(s.alive.use_count() == 3);  // with `never` and `slow`
}

TEST_CASE("a limit for an operation that begins while its context goes leaves nothing behind", "[shutdown]") {
  stage s;
  std::shared_ptr<void> kept;
  bool has_begun = false;
  when_time_goes(s, [&, executor = s.io->get_executor()] {
    has_begun = true;
    async_never(kept,
                canigo::cancel_after(1h, net::bind_executor(executor, [alive = s.alive](std::error_code) { FAIL(); })));
  });
  s.end();
  CHECK(has_begun);
  kept.reset();
  CHECK(s.alive.use_count() == 1);
}

TEST_CASE("a coroutine that is resumed while its context goes is destroyed where it waits next", "[shutdown]") {
  stage s;
  std::function<void()> resume;
  int reached = 0;
  s.spawn([&, alive = s.alive]() -> net::awaitable<void> {
    co_await until(resume);
    ++reached;
    co_await sleep_for(1h);
    ++reached;
  });
  s.time->poll();
  when_time_goes(s, [&] { std::exchange(resume, nullptr)(); });
  CHECK(s.alive.use_count() == 2);
  s.end();
  CHECK(reached == 1);
  CHECK(s.alive.use_count() == 1);
}

TEST_CASE("one that goes with its context may cancel others that wait there", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  scheduler quota{*s.io, {.rate = rate::per_hour(1), .burst = 1}};
  limiter fair{*s.io, {.concurrency = 1}};
  const flow tenant{fair};
  const permit taken = places.try_acquire().value();
  const permit taken_fairly = fair.try_acquire({.flow = &tenant}).value();
  int emitted = 0;
  std::deque<net::cancellation_signal> signals;
  // Two of a kind: the first, which goes first, cancels the second as it is destroyed.
  const auto two_wait = [&](const auto& wait) {
    net::cancellation_signal& second = signals.emplace_back();
    wait([alive = s.alive, w = last_words{[&] {
                             ++emitted;
                             second.emit(net::cancellation_type::terminal);
                           }}](auto&&...) { FAIL("it was called"); });
    wait(net::bind_cancellation_slot(second.slot(), [alive = s.alive](auto&&...) { FAIL("it was called"); }));
  };
  two_wait([&](auto handler) { places.async_acquire({}, std::move(handler)); });
  two_wait([&](auto handler) { quota.async_acquire({}, std::move(handler)); });
  two_wait([&](auto handler) { fair.async_acquire({.flow = &tenant}, std::move(handler)); });
  s.time->poll();
  s.end();
  CHECK(emitted == 3);
  CHECK(s.alive.use_count() == 1);
  CHECK(places.stats().waiting + quota.stats().waiting + fair.stats().waiting == 0);
  CHECK(places.stats().cancelled + quota.stats().cancelled + fair.stats().cancelled == 0);
}

// An owner that ends its operations in its destructor may go with the context after them.
TEST_CASE("a signal may be emitted to those that went with their context", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  limiter fair{*s.io, {.concurrency = 1}};
  const flow tenant{fair};
  strand_pool pool{*s.io, {.concurrency = 1}};
  const permit taken = places.try_acquire().value();
  const permit taken_fairly = fair.try_acquire({.flow = &tenant}).value();
  std::deque<net::cancellation_signal> signals;
  const auto cancellable = [&] {
    return net::bind_cancellation_slot(signals.emplace_back().slot(),
                                       [alive = s.alive](auto&&...) { FAIL("it was called"); });
  };
  // The co_spawn of Boost 1.81 stays in its slot when the context goes.
  constexpr bool may_emit = ASIO_VERSION < 102300 || ASIO_VERSION >= 103000;
  std::deque<net::cancellation_signal> unheard;
  const auto coroutine = [&](net::awaitable<void> a) {
    auto& signal = (may_emit ? signals : unheard).emplace_back();
    net::co_spawn(*s.io, std::move(a), net::bind_cancellation_slot(signal.slot(), net::detached));
  };
  places.async_acquire({}, cancellable());
  fair.async_acquire({.flow = &tenant}, cancellable());
  coroutine([](semaphore& full, std::shared_ptr<int>) -> net::awaitable<void> { (void)co_await full.acquire(); }(
                                                          places, s.alive));
  coroutine([](std::shared_ptr<int>) -> net::awaitable<void> { co_await sleep_for(1h); }(s.alive));
  auto running = pool.submit([alive = s.alive](task_context&) { return sleep_for(1h); });
  running.async_wait(cancellable());
  pool.async_run([alive = s.alive] {}, {}, cancellable());
  coroutine(
      [](strand_pool& open, std::shared_ptr<int>) -> net::awaitable<void> { co_await open.closed(); }(pool, s.alive));
  s.time->poll();
  SECTION("after the end") {
    s.end();
    for (auto& signal : signals) signal.emit(net::cancellation_type::terminal);
  }
  SECTION("at the end") {
    when_time_goes(s, [&] {
      for (auto& signal : signals) signal.emit(net::cancellation_type::terminal);
    });
    s.end();
  }
  CHECK(s.alive.use_count() == 1);
  CHECK(places.stats().cancelled + fair.stats().cancelled == 0);
}

TEST_CASE("a signal may go before who waits goes with the context", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  const permit taken = places.try_acquire().value();
  {
    net::cancellation_signal signal;
    places.async_acquire(
        {}, net::bind_cancellation_slot(signal.slot(), [alive = s.alive](auto&&...) { FAIL("it was called"); }));
  }
  s.end();
  CHECK(s.alive.use_count() == 1);
}

TEST_CASE("a signal may go before who waits gets the permit", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  permit taken = places.try_acquire().value();
  bool granted = false;
  auto signal = std::make_unique<net::cancellation_signal>();
  places.async_acquire(
      {}, net::bind_cancellation_slot(signal->slot(), [&granted](auto error, auto&&...) { granted = !error; }));
  signal.reset();
  taken.release();
  s.time->poll();
  CHECK(granted);
}

TEST_CASE("who asks a limit when its context has gone goes, too", "[shutdown]") {
  stage s;
  semaphore places{*s.io, {.permits = 1}};
  scheduler quota{net::any_io_executor{net::make_strand(*s.io)}, {.rate = rate::per_hour(1), .burst = 1}};
  const auto never = [alive = s.alive](auto&&...) { FAIL("it was called"); };
  s.end();
  places.async_acquire({}, never);
  quota.async_acquire({}, never);
  CHECK(s.alive.use_count() == 2);  // with `never`
  net::io_context other;
  std::error_code how;
  net::co_spawn(
      other,
      [&]() -> net::awaitable<void> {
        try {
          co_await quota.acquire();
        } catch (const std::system_error& e) {
          how = e.code();
        }
      },
      net::detached);
  other.run();
  CHECK(how == errc::stopped);
}

TEST_CASE("what the executor of a pool has no memory for goes with its context", "[shutdown]") {
  stage s;
  mood now = mood::posts;
  strand_pool pool{net::any_io_executor{fickle_executor{*s.io, [&now] { return now; }}}, {.concurrency = 2}};
  auto running = pool.submit([alive = s.alive](task_context&) { return sleep_for(1h); });
  auto ended = pool.submit([] {});
  const auto never = [alive = s.alive](const std::exception_ptr&) { FAIL("it was called"); };
  s.time->poll();
  CHECK(ended.state() == task_state::succeeded);
  now = mood::throws;
  auto queued = pool.submit([alive = s.alive] {});  // for which nobody is woken
  CHECK(running.cancel());                          // of which nobody is told
  ended.async_wait(never);
  s.end();
  CHECK(queued.state() == task_state::stopped);
  CHECK(has_ended(running.state()));
  adds_up(pool.stats());
  CHECK(s.alive.use_count() == 2);  // with `never`
}

TEST_CASE("only the thread that ends a context destroys what was queued there", "[shutdown]") {
  stage s;
  strand_pool pool{*s.io, {.concurrency = 1}};
  std::thread::id destroyed_by;
  auto queued = pool.submit([w = last_words{[&] { destroyed_by = std::this_thread::get_id(); }}] {}, {.delay = 1h});
  // Another thread comes while those who wait are destroyed.
  queued.async_wait([w = last_words{[&] { std::thread{[&] { queued.cancel(); }}.join(); }}](auto&&...) { FAIL(); });
  s.end();
  CHECK(destroyed_by == std::this_thread::get_id());
  CHECK(queued.state() == task_state::stopped);
}

TEST_CASE("a pool that is dropped after its context began to go takes along what was cancelled there", "[shutdown]") {
  int cancelled = 0;
  for (const bool is_first : {false, true}) {
    stage s;
    std::optional<strand_pool> early, pool, late;
    for (auto* p : {&early, &pool, &late}) p->emplace(*s.io, strand_pool_options{.concurrency = 1});
    // Its worker is lost with what it waits for. So nobody else keeps the pool.
    std::shared_ptr<void> kept;
    (void)pool->try_post([&kept](task_context&) { return async_never(kept, net::use_awaitable); });
    s.time->poll();
    kept.reset();
    auto queued = std::make_optional(pool->submit([alive = s.alive] {}, {.delay = 1h}));
    // What waits in another pool is destroyed when that one hears of the end. One of the two hears of it before `pool`.
    strand_pool& other = is_first ? *early : *late;
    other.async_run([] {}, {.delay = 1h}, [w = last_words{[&] {
                                             cancelled += queued->cancel();
                                             queued.reset();
                                             pool.reset();
                                           }}](auto&&...) { FAIL(); });
    s.end();
    CHECK(s.alive.use_count() == 1);
  }
  CHECK(cancelled == 1);
}

TEST_CASE("who waits in a pool when its context has gone goes, too", "[shutdown]") {
  stage s;
  strand_pool pool{*s.io, {.concurrency = 1}};
  auto ended = pool.submit([] {});
  s.time->poll();
  CHECK(ended.state() == task_state::succeeded);
  const auto never = [alive = s.alive](const std::exception_ptr&) { FAIL("it was called"); };
  s.end();
  ended.async_wait(never);
  pool.async_run([alive = s.alive] {}, {}, never);
  CHECK(s.alive.use_count() == 2);  // with `never`
}

TEST_CASE("a pool whose context has gone answers callers of another context", "[shutdown]") {
  stage s;
  strand_pool pool{*s.io, {.concurrency = 1}};
  const auto ended = pool.submit([] { return 5; });
  s.time->poll();
  s.end();
  net::io_context other;
  int result = 0;
  std::error_code how;
  net::co_spawn(
      other,
      [&]() -> net::awaitable<void> {
        result = co_await ended.result();
        try {
          co_await pool.run([] {});
        } catch (const std::system_error& e) {
          how = e.code();
        }
      },
      net::detached);
  other.run();
  CHECK(result == 5);
  CHECK(how == errc::stopped);
}

TEST_CASE("an operation that ends while its context goes takes its worker with it", "[shutdown]") {
  stage s;
  std::function<void()> resume;
  strand_pool pool{*s.io, {.concurrency = 1}};
  auto t = pool.submit([&resume, alive = s.alive](task_context&) { return until(resume); });
  s.time->poll();
  when_time_goes(s, [&] { std::exchange(resume, nullptr)(); });
  CHECK(t.state() == task_state::running);
  s.end();
  CHECK(has_ended(t.state()));
  CHECK(s.alive.use_count() == 1);
  adds_up(pool.stats());
}
