// The execution context goes while its objects are given up on another thread: whoever comes second frees them.

#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/time_source.hpp"

#include "interleaving_test.hpp"
#include "world.hpp"

#include <chrono>
#include <memory>
#include <optional>

using canigo::permit;
using canigo::rate;
using canigo::scheduler;
using canigo::semaphore;
using interleaving::caller;
using interleaving::strand_of_loop;
using interleaving::world;
using namespace std::chrono_literals;

namespace {
namespace net = canigo::net;
}

TEST_CASE("the context goes while its semaphore is destroyed", "[interleaving]") {
  explore(3, [](world& w) {
    auto s = std::make_unique<semaphore>(net::any_io_executor{w.make_loop("loop", 0)},
                                         canigo::semaphore_options{.permits = 1});
    w.thread("context", [&] { w.shut_down(); });
    w.thread("destroys", [&] { s.reset(); });
    w.run();
  });
}

TEST_CASE("the context goes while the last permit of a semaphore that is gone is dropped", "[interleaving]") {
  explore(3, [](world& w) {
    std::optional<semaphore> s;
    s.emplace(net::any_io_executor{w.make_loop("loop", 0)}, canigo::semaphore_options{.permits = 2});
    std::optional<permit> a = s->try_acquire();
    std::optional<permit> b = s->try_acquire();
    s.reset();
    w.thread("context", [&] { w.shut_down(); });
    w.thread("drops", [&] { a.reset(); });
    w.thread("drops too", [&] { b.reset(); });
    w.run();
  });
}

TEST_CASE("the context goes while a semaphore and its last permit do", "[interleaving]") {
  explore(3, [](world& w) {
    auto s = std::make_unique<semaphore>(net::any_io_executor{w.make_loop("loop", 0)},
                                         canigo::semaphore_options{.permits = 1});
    std::optional<permit> p = s->try_acquire();
    w.thread("context", [&] { w.shut_down(); });
    w.thread("destroys", [&] { s.reset(); });
    w.thread("drops", [&] { p.reset(); });
    w.run();
  });
}

TEST_CASE("the context goes while a scheduler that waits for its time is stopped", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    scheduler s{home, {.rate = rate::per_second(1)}};
    caller& a = w.make_caller(home);
    a.acquire(s);
    w.thread("context", [&] { w.shut_down(); });
    w.thread("looks", [&] { s.stats(); });
    w.run();
    w.expect(a.calls == 0, "called by a context that was going");
    w.expect(!s.try_acquire(), "open without a context");
  });
}

TEST_CASE("the context goes while a pool is destroyed", "[interleaving]") {
  explore(2, [](world& w) {
    auto pool = std::make_unique<canigo::strand_pool>(net::any_io_executor{w.make_loop("loop", 0)},
                                                      canigo::strand_pool_options{.concurrency = 1});
    w.thread("context", [&] { w.shut_down(); });
    w.thread("destroys", [&] { pool.reset(); });
    w.run();
  });
}

TEST_CASE("the context goes while the last task of a pool that is gone is dropped", "[interleaving]") {
  explore(2, [](world& w) {
    auto pool = std::make_unique<canigo::strand_pool>(net::any_io_executor{w.make_loop("loop", 0)},
                                                      canigo::strand_pool_options{.concurrency = 1});
    std::optional<canigo::task<void>> t = pool->submit([] {});
    pool.reset();
    w.thread("context", [&] { w.shut_down(); });
    w.thread("drops", [&] { t.reset(); });
    w.run();
  });
}

TEST_CASE("the context goes while a semaphore on a strand and its last permit do", "[interleaving]") {
  explore(3, [](world& w) {
    const auto home = w.make_loop("loop", 0);
    canigo::time_source::of(net::any_io_executor{home});  // keeps the first executor that it sees
    auto s = std::make_unique<semaphore>(net::any_io_executor{strand_of_loop{home}},
                                         canigo::semaphore_options{.permits = 1});
    std::optional<permit> p = s->try_acquire();
    w.thread("context", [&] { w.shut_down(); });
    w.thread("destroys", [&] { s.reset(); });
    w.thread("drops", [&] { p.reset(); });
    w.run();
  });
}
