// The pool under every order of what its loops, its users and the clock do.

#include "canigo/algorithms/backoff.hpp"
#include "canigo/resource_pool.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task.hpp"
#include "canigo/timeout.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <asio/bind_executor.hpp>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>

using canigo::errc;
using canigo::pool_stats;
using canigo::stop_mode;
using canigo::strand_pool;
using interleaving::world;
using namespace std::chrono_literals;

namespace {

namespace net = canigo::net;

/// What became of one operation, as its owner hears of it.
struct ending {
  int calls = 0;
  std::error_code error;

  auto handler(const interleaving::loop_executor& where) {
    return net::bind_executor(where, [this](const std::exception_ptr& e) {
      ++calls;
      try {
        if (e) std::rethrow_exception(e);
      } catch (const std::system_error& s) {
        error = s.code();
      }
    });
  }
  bool was_fine() const { return calls == 1 && !error; }
};

void expect_sound(world& w, const strand_pool& pool, std::uint64_t submitted) {
  const pool_stats s = pool.stats();
  w.expect(s.submitted == submitted, "an operation was not counted, or twice");
  w.expect(s.submitted == s.succeeded + s.failed + s.cancelled + s.timed_out + s.stopped, "the ends do not add up");
  w.expect(s.working == 0 && s.queued == 0 && s.delayed == 0, "something is still there");
}

}  // namespace

TEST_CASE("two threads post to the one worker of a pool", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    int ran = 0;
    w.thread("posts", [&] { w.expect(pool.try_post([&] { ++ran; }), "refused"); });
    w.thread("posts too", [&] { w.expect(pool.try_post([&] { ++ran; }), "refused"); });
    w.run();
    w.expect(ran == 2, "an operation was lost, or run twice");
    expect_sound(w, pool, 2);
  });
}

TEST_CASE("one posts while a worker goes to sleep", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 2);
    strand_pool pool{home, {.concurrency = 2}};
    int ran = 0;
    (void)pool.try_post([&] { ++ran; });
    w.thread("posts", [&] {
      (void)pool.try_post([&] { ++ran; });
      (void)pool.try_post([&] { ++ran; });
    });
    w.run();
    w.expect(ran == 3, "a wake-up was lost");
    expect_sound(w, pool, 3);
  });
}

TEST_CASE("one hears of its end on another loop", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    const auto own = w.make_loop("strand");
    strand_pool pool{home, {.concurrency = 1}};
    ending a;
    ending b;
    w.thread("asks", [&] { pool.async_run([] {}, {}, a.handler(own)); });
    w.thread("asks too", [&] { pool.async_run([] {}, {}, b.handler(home)); });
    w.run();
    w.expect(a.was_fine() && b.was_fine(), "another end");
    expect_sound(w, pool, 2);
  });
}

TEST_CASE("an operation is cancelled while it is begun", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    int ran = 0;
    canigo::task<void> t = pool.submit([&] { ++ran; });
    ending a;
    t.async_wait(a.handler(home));
    w.thread("cancels", [&] { t.cancel(); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(a.was_fine() ? ran == 1 : a.error == net::error::operation_aborted, "another end");
    expect_sound(w, pool, 1);
  });
}

TEST_CASE("a coroutine is cancelled while its time runs out", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    const auto sleeps = []() -> net::awaitable<void> { co_await canigo::sleep_for(1h); };
    canigo::task<void> t = pool.submit(sleeps, {.timeout = 1s});
    ending a;
    t.async_wait(a.handler(home));
    w.thread("cancels", [&] { t.cancel(); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(a.calls == 1, "not answered exactly once");
    w.expect(a.error == net::error::operation_aborted || a.error == errc::timed_out, "another end");
    w.expect(w.now() < w.after(1h), "it was not cancelled");
    expect_sound(w, pool, 1);
  });
}

TEST_CASE("a coroutine ends just when its time does", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    const auto sleeps = []() -> net::awaitable<void> { co_await canigo::sleep_for(1s); };
    ending a;
    ending b;
    pool.async_run(sleeps, {.timeout = 1s}, a.handler(home));
    pool.async_run([] {}, {}, b.handler(home));
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(a.was_fine() || a.error == errc::timed_out, "another end");
    w.expect(b.was_fine(), "the worker was lost");
    expect_sound(w, pool, 2);
  });
}

TEST_CASE("a pool is stopped in two ways at once, with work in it", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    ending a;
    ending b;
    pool.async_run([] {}, {}, a.handler(home));
    w.thread("drains", [&] { pool.request_stop(stop_mode::drain); });
    w.thread("cancels all", [&] { pool.request_stop(stop_mode::cancel_all); });
    w.thread("asks", [&] { pool.async_run([] {}, {}, b.handler(home)); });
    w.run();
    w.expect(pool.is_closed(), "it does not stop");
    w.expect(a.calls == 1 && b.calls == 1, "not answered exactly once");
    w.expect(b.was_fine() || b.error == errc::stopped, "another end");
  });
}

TEST_CASE("a drain waits for what is queued and for nothing that comes later", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    int ran = 0;
    (void)pool.try_post([&] { ++ran; });
    (void)pool.try_post([&] { ++ran; });
    bool accepted = false;
    w.thread("drains", [&] { pool.request_stop(stop_mode::drain); });
    w.thread("posts", [&] { accepted = pool.try_post([&] { ++ran; }); });
    w.run();
    w.expect(pool.is_closed(), "it does not stop");
    w.expect(ran == (accepted ? 3 : 2), "an accepted operation was not run, or a refused one was");
  });
}

TEST_CASE("the grace of a stop ends while the operation does", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    const auto sleeps = []() -> net::awaitable<void> { co_await canigo::sleep_for(1s); };
    ending a;
    pool.async_run(sleeps, {}, a.handler(home));
    w.thread("stops", [&] { pool.request_stop(stop_mode::finish_running, 1s); });
    w.thread("clock", [&] { w.pass_to(1s); });
    w.run();
    w.expect(pool.is_closed(), "it does not stop");
    w.expect(a.was_fine() || a.error == net::error::operation_aborted || a.error == errc::stopped, "another end");
  });
}

TEST_CASE("more workers while one posts", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    int ran = 0;
    int at_once = 0;
    int most = 0;
    const auto sleeps = [&]() -> net::awaitable<void> {
      most = std::max(most, ++at_once);
      co_await canigo::sleep_for(1s);
      --at_once;
      ++ran;
    };
    (void)pool.try_post(sleeps);
    w.thread("posts", [&] { (void)pool.try_post(sleeps); });
    w.thread("resizes", [&] { pool.resize(2); });
    w.run();
    w.expect(ran == 2, "an operation was lost");
    w.expect(most == 2, "a worker stood idle beside work");
    expect_sound(w, pool, 2);
  });
}

TEST_CASE("fewer workers while operations end", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 2);
    strand_pool pool{home, {.concurrency = 2}};
    int ran = 0;
    for (int i = 0; i < 3; ++i) (void)pool.try_post([&] { ++ran; });
    w.thread("resizes", [&] { pool.resize(1); });
    w.run();
    w.expect(ran == 3, "an operation was lost");
    expect_sound(w, pool, 3);
  });
}

TEST_CASE("a pool goes while its operation ends", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    auto pool =
        std::make_unique<strand_pool>(net::any_io_executor{home}, canigo::strand_pool_options{.concurrency = 1});
    ending a;
    ending b;
    canigo::task<void> t = pool->submit([] {});
    t.async_wait(a.handler(home));
    pool->async_run([] {}, {}, b.handler(home));
    w.thread("destroys", [&] { pool.reset(); });
    w.run();
    w.expect(a.calls == 1 && b.calls == 1, "not answered exactly once");
    w.expect(b.was_fine() || b.error == errc::stopped || b.error == net::error::operation_aborted, "another end");
  });
}

TEST_CASE("a full queue takes one more as soon as there is room", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1, .queue_limit = 1, .on_overflow = canigo::overflow::wait}};
    ending ends[3];
    w.thread("asks", [&] {
      pool.async_run([] {}, {}, ends[0].handler(home));
      pool.async_run([] {}, {}, ends[1].handler(home));
    });
    w.thread("asks too", [&] { pool.async_run([] {}, {}, ends[2].handler(home)); });
    w.run();
    w.expect(ends[0].was_fine() && ends[1].was_fine() && ends[2].was_fine(), "another end");
    expect_sound(w, pool, 3);
  });
}

TEST_CASE("a group is cancelled while one joins it", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    strand_pool pool{home, {.concurrency = 1}};
    ending a;
    ending b;
    const auto sleeps = []() -> net::awaitable<void> { co_await canigo::sleep_for(1s); };
    pool.async_run(sleeps, {.group = 7}, a.handler(home));
    std::size_t cancelled = 0;
    w.thread("cancels", [&] { cancelled = pool.cancel_group(7); });
    w.thread("asks", [&] { pool.async_run(sleeps, {.group = 7}, b.handler(home)); });
    w.run();
    w.expect(a.error == net::error::operation_aborted, "not cancelled");
    w.expect(b.was_fine() == (cancelled == 1), "cancelled and counted differently");
    expect_sound(w, pool, 2);
  });
}

TEST_CASE("a pool of resources is made smaller while its workers go to sleep", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop", 2);
    canigo::resource_pool<int> pool{home, {.concurrency = 2, .make = [] { return 1; }}};
    int ran = 0;
    for (int i = 0; i < 2; ++i) (void)pool.try_post([&](int&) { ++ran; });
    w.thread("makes it smaller", [&] { pool.resize(1); });
    w.run();
    (void)pool.try_post([&](int&) { ++ran; });
    w.run();
    w.expect(ran == 3, "an operation was lost, or run twice");
    const pool_stats s = pool.stats();
    w.expect(s.sleeping == 1 && s.resources == 1, "not one worker is left, or not its resource");
    w.expect(s.working == 0 && s.queued == 0 && s.repairing == 0, "something is still there");
  });
}

TEST_CASE("an alarm that is late when the next one is set", "[interleaving]") {
  explore(2, [](world& w) {
    const auto home = w.make_loop("loop");
    canigo::semaphore s{home, {.permits = 1}};
    canigo::permit out = s.try_acquire().value();
    strand_pool pool{home, {.concurrency = 1}};
    ending a;
    const auto fails_once = [&s](canigo::task_context& t) -> net::awaitable<void> {
      if (t.attempt() > 1) co_await canigo::sleep_for(1h);
      const canigo::permit p = co_await s.acquire();
      throw std::runtime_error{"once more"};
    };
    pool.async_run(fails_once, {.timeout = 1s, .retry = {.attempts = 2, .backoff = canigo::backoff::constant(0s)}},
                   a.handler(home));
    w.thread("clock", [&] { w.pass_to(1s); });
    w.thread("gives back", [&] { out.release(); });
    w.thread("another clock", [&] { w.pass_to(2s); });
    w.run();
    w.expect(a.calls == 1 && a.error == errc::timed_out, "another end");
    expect_sound(w, pool, 1);
  });
}
