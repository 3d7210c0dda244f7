// What is under way when an execution context goes, and what begins while it does: it is destroyed, and nothing is
// called.

#include "canigo/cancel_after.hpp"
#include "canigo/detail/context/context_service.hpp"
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
#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <utility>

using namespace std::chrono_literals;
using namespace canigo;
using pool_run::adds_up;
using pool_run::last_words;
using pool_run::until;

namespace {

/// A context in virtual time, and how many of those that hold `alive` are left.
struct stage {
  explicit stage(bool time_goes_first = false) {
    // The service that comes last is the first to be shut down.
    if (time_goes_first) {
      net::use_service<detail::context_service>(*io);
      net::make_strand(*io);
    }
    time.emplace(*io);
  }
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

/// While the context goes: called with the time, where that goes first.
struct with_the_time : deadline {
  with_the_time(stage& s, std::function<void()> f)
      : deadline{[](deadline& d, due why) noexcept {
          if (why == due::shutdown) static_cast<with_the_time&>(d).call();
        }},
        call{std::move(f)} {
    time_source::of(s.io->get_executor()).arm(*this, time_point{} + 1h);
  }
  std::function<void()> call;
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

TEST_CASE("whichever service of a context goes first, all that waits goes with it", "[shutdown]") {
  const bool time_goes_first = GENERATE(false, true);
  stage s{time_goes_first};
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
  resources.try_post([alive = s.alive](int&) {});
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

TEST_CASE("a limit of time that a coroutine sets when the time has gone leaves nothing behind", "[shutdown]") {
  stage s{true};
  std::function<void()> resume;
  bool has_begun = false;
  // A child that is left behind would keep its executor.
  const auto post = [alive = s.alive] { return mood::posts; };
  net::co_spawn(
      net::any_io_executor{fickle_executor{*s.io, post}},
      [&]() -> net::awaitable<void> {
        co_await until(resume);
        has_begun = true;
        co_await with_timeout(sleep_for(1h), 1h);
      },
      net::detached);
  s.time->poll();
  with_the_time here{s, [&] { std::exchange(resume, nullptr)(); }};
  CHECK(s.alive.use_count() == 3);
  s.end();
  CHECK(has_begun);
  CHECK(s.alive.use_count() == 2);  // with `post`
}

TEST_CASE("who begins to wait until a deadline when the time has gone goes with the context", "[shutdown]") {
  stage s{true};
  semaphore places{*s.io, {.permits = 1}};
  const permit taken = places.try_acquire().value();
  const auto never = [alive = s.alive](std::error_code, const permit&) { FAIL("it was called"); };
  std::uint64_t waiting = 0;
  with_the_time here{s, [&] {
                       places.async_acquire({.deadline = time_point{} + 1h}, never);
                       waiting = places.stats().waiting;
                     }};
  s.end();
  CHECK(waiting == 1);
  CHECK(places.stats().waiting == 0);
  CHECK(s.alive.use_count() == 2);  // with `never`
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

TEST_CASE("a group that is cancelled without memory when the time has gone leaves nothing behind", "[shutdown]") {
  struct failure {
    std::shared_ptr<int> alive;
  };
  stage s{true};
  bool is_short = false;
  int refused = 0;
  std::function<void()> resume;
  {
    task_group group{net::any_io_executor{fickle_executor{*s.io, [&] {
                                                            refused += is_short;
                                                            return is_short ? mood::throws : mood::posts;
                                                          }}}};
    group.spawn(until(resume));
    group.spawn([](std::shared_ptr<int> alive) -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw failure{std::move(alive)};
    }(s.alive));
    with_the_time here{s, [&] {
                         is_short = true;
                         group.cancel();
                         resume = nullptr;  // whose strand must not outlive the context
                       }};
    s.time->run_for(1s);
    CHECK(group.running() == 1);
    s.end();
    CHECK(refused == 1);
    CHECK(s.alive.use_count() == 2);  // the failure, which nobody has asked for
  }
  CHECK(s.alive.use_count() == 1);
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
