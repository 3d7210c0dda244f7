// The execution context goes on one thread while another one uses what lives there: nothing is posted to it any more,
// nothing reaches for it, and nobody is called.

#include "canigo/cancel.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

using canigo::permit;
using canigo::rate;
using interleaving::caller;
using interleaving::loop_executor;
using interleaving::strand_of_loop;
using interleaving::world;

namespace {

namespace net = canigo::net;

/// The context goes while another thread does this.
void goes_while(world& w, std::function<void()> something) {
  w.thread("context", [&w] { w.shut_down(); });
  w.thread("another", [f = std::move(something)] { f(); });
  w.run();
}

void expect_uncalled(world& w, const caller& c) { w.expect(c.calls == 0, "called by a context that was going"); }

/// A pool without threads, whose one operation waits for `slots`.
struct busy_pool {
  busy_pool(world& w, canigo::semaphore& slots)
      : home{w.make_loop("loop", 0)}, pool{net::any_io_executor{home}, {.concurrency = 1}} {
    running.emplace(pool.submit(
        [&slots](canigo::task_context&) -> net::awaitable<void> { (void)co_await slots.acquire(canigo::request{}); }));
    home.poll();
    w.expect(running->state() == canigo::task_state::running, "it does not run");
  }

  loop_executor home;
  canigo::strand_pool pool;
  std::optional<canigo::task<void>> running;
};

}  // namespace

TEST_CASE("the context goes while a permit comes back to one who waits there", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::semaphore s{net::any_io_executor{strand_of_loop{home}}, {.permits = 1}};
    std::optional<permit> p = s.try_acquire();
    bool was_called = false;
    s.async_acquire({}, [&](std::error_code, permit) { was_called = true; });
    goes_while(w, [&] { p.reset(); });
    w.expect(!was_called, "called by a context that was going");
    w.expect(s.stats().held == 0, "the permit was lost");
  });
}

TEST_CASE("the context goes while a permit comes back to one who waits there on a strand", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::semaphore s{home, {.permits = 1}};
    std::optional<permit> p = s.try_acquire();
    caller& a = w.make_caller(w.make_loop("strand", 0));
    a.acquire(s);
    goes_while(w, [&] { p.reset(); });
    expect_uncalled(w, a);
    w.expect(s.stats().held == 0, "the permit was lost");
  });
}

TEST_CASE("the context goes while the rate of who waits there changes", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::scheduler s{home, {.rate = rate::per_hour(1)}};
    bool was_called = false;
    s.async_acquire({}, [&](std::error_code) { was_called = true; });
    goes_while(w, [&] {
      s.set_rate(rate::per_second(1));
      s.refund(1);
    });
    w.expect(!was_called, "called by a context that was going");
  });
}

TEST_CASE("the context goes while a limit that somebody waits for is stopped", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::limiter l{net::any_io_executor{strand_of_loop{home}}, {.rates = {{rate::per_hour(1)}}}};
    bool was_called = false;
    l.async_acquire({}, [&](std::error_code, permit) { was_called = true; });
    goes_while(w, [&] { l.stop(); });
    w.expect(!was_called, "called by a context that was going");
  });
}

TEST_CASE("the context goes while a limit that somebody waits for is destroyed", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    auto l = std::make_unique<canigo::limiter>(net::any_io_executor{strand_of_loop{home}},
                                               canigo::limiter_options{.rates = {{rate::per_hour(1)}}});
    const auto alive = std::make_shared<int>();
    l->async_acquire({}, [alive](std::error_code, permit) { std::abort(); });
    goes_while(w, [&] { l.reset(); });
    w.expect(alive.use_count() == 1, "who waited was left behind");
  });
}

TEST_CASE("the context goes while an operation is handed over", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::strand_pool pool{net::any_io_executor{home}, {.concurrency = 1}};
    home.poll();
    std::optional<canigo::task<void>> t;
    goes_while(w, [&] { t.emplace(pool.submit([] {})); });
    w.expect(t->state() == canigo::task_state::stopped, "another end");
    w.expect(pool.stats().stopped + pool.stats().rejected == 1, "not counted");
  });
}

TEST_CASE("the context goes while what runs there is cancelled", "[interleaving]") {
  explore(2, [](world& w) {
    canigo::semaphore slots{w.make_loop("loop", 0), {.permits = 1}};
    const std::optional<permit> p = slots.try_acquire();
    busy_pool b{w, slots};
    goes_while(w, [&] { b.running->cancel(); });
    w.expect(has_ended(b.running->state()), "it has no end");
  });
}

TEST_CASE("the context goes while a pool is stopped whose operations are waited for", "[interleaving]") {
  explore(2, [](world& w) {
    canigo::semaphore slots{w.make_loop("loop", 0), {.permits = 1}};
    const std::optional<permit> p = slots.try_acquire();
    busy_pool b{w, slots};
    bool was_called = false;
    b.running->async_wait([&](const std::exception_ptr&) { was_called = true; });
    auto queued = std::make_optional(b.pool.submit([] {}));
    queued->async_wait([&](const std::exception_ptr&) { was_called = true; });
    goes_while(w, [&] { b.pool.request_stop(canigo::stop_mode::cancel_all); });
    w.expect(!was_called, "called by a context that was going");
    w.expect(has_ended(b.running->state()) && queued->state() == canigo::task_state::stopped, "another end");
  });
}

TEST_CASE("the context goes while an operation that needs it is cancelled", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::strand_pool pool{net::any_io_executor{home}, {.concurrency = 1}};
    auto t = pool.submit([strand = strand_of_loop{home}] {}, {.delay = std::chrono::hours{1}});
    goes_while(w, [&] { t.cancel(); });
    w.expect(has_ended(t.state()), "it has no end");
  });
}

TEST_CASE("the context goes while its pool grows", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::strand_pool pool{net::any_io_executor{home}, {.concurrency = 1}};
    home.poll();
    goes_while(w, [&] { pool.resize(2); });
  });
}

TEST_CASE("the context goes while a source cancels what runs there", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::semaphore slots{home, {.permits = 1}};
    const std::optional<permit> p = slots.try_acquire();
    canigo::cancel_source stop;
    bool has_ended = false;
    const auto guarded = [&]() -> net::awaitable<void> {
      (void)co_await stop.wrap(slots.acquire(canigo::request{}));
      has_ended = true;
    };
    net::co_spawn(net::any_io_executor{strand_of_loop{home}}, guarded(), net::detached);
    home.poll();
    w.expect(slots.stats().waiting == 1, "it does not wait");
    goes_while(w, [&] { stop.cancel(); });
    w.expect(!has_ended, "called by a context that was going");
    w.expect(stop.cancelled(), "forgotten");
  });
}

TEST_CASE("the context goes while a group is cancelled", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::semaphore slots{home, {.permits = 1}};
    const std::optional<permit> p = slots.try_acquire();
    auto group = std::make_unique<canigo::task_group>(net::any_io_executor{strand_of_loop{home}});
    const auto child = [&]() -> net::awaitable<void> { (void)co_await slots.acquire(canigo::request{}); };
    const auto result = group->spawn(child());
    home.poll();
    w.expect(slots.stats().waiting == 1, "it does not wait");
    goes_while(w, [&] { group->cancel(); });
    w.expect(group->running() == 0, "a child was left behind");
  });
}
