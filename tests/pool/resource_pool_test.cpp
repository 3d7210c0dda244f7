#include "canigo/resource_pool.hpp"

#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/pool_run.hpp"

#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>

#include <algorithm>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

struct world : pool_run::bench_top {
  int made = 0, destroyed = 0, alive = 0, checks = 0, resets = 0;
  bool good = true, can_make = true, can_reset = true;
};

/// Counts itself.
struct connection {
  explicit connection(world& w) : owner{&w}, number{++w.made} { ++w.alive; }
  connection(connection&& other) noexcept : owner{std::exchange(other.owner, nullptr)}, number{other.number} {}
  ~connection() {
    if (owner != nullptr) --owner->alive;
  }
  world* owner;
  int number;
};

resource_pool_options<connection> options(world& w, std::size_t n) {
  return {.concurrency = n,
          .restart = {.limit = 3, .within = 1min, .backoff = backoff::constant(100ms)},
          .make = [&w]() -> net::awaitable<connection> {
            co_await sleep_for(10ms);
            if (!w.can_make) throw std::runtime_error{"nobody there"};
            co_return connection{w};
          },
          .destroy = [&w](connection&) -> net::awaitable<void> {
            co_await sleep_for(5ms);
            ++w.destroyed;
          }};
}

}  // namespace

TEST_CASE("resources are made when there is work, one for each worker, and destroyed by a stop") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 2)};
  w.time.run();
  CHECK(w.made == 0);
  std::vector<long> ends;
  for (int i = 0; i < 6; ++i) {
    (void)pool.try_post([&](connection& c, task_context&) -> net::awaitable<void> {
      CHECK(c.owner == &w);
      co_await sleep_for(100ms);
      ends.push_back(w.ms());
    });
  }
  auto short_one = pool.submit([](connection& c) { return c.number; });
  w.time.run();
  CHECK(w.made == 2);
  CHECK(ends == std::vector<long>{110, 110, 210, 210, 310, 310});
  CHECK(short_one.state() == task_state::succeeded);
  CHECK(pool.stats().resources == 2);
  long closed = 0;
  net::co_spawn(
      w.io,
      [&]() -> net::awaitable<void> {
        co_await pool.stop();
        closed = w.ms();
      },
      [](std::exception_ptr) {});
  w.time.run();
  CHECK(closed == 315);
  CHECK(w.destroyed == 2);
  CHECK(w.alive == 0);
}

TEST_CASE("P19 a worker whose resource breaks gets a new one, and past the limit the pool stops with the cause") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 1)};
  auto breaks = [](connection&, task_context&) -> net::awaitable<int> {
    throw fatal_error{"connection lost"};
    co_return 0;
  };
  auto works = [](connection& c, task_context&) -> net::awaitable<int> { co_return c.number; };
  auto first = pool.submit(breaks);
  auto second = pool.submit(works);
  w.time.run();
  CHECK(first.state() == task_state::failed);
  CHECK(second.state() == task_state::succeeded);
  CHECK(w.made == 2);
  CHECK(w.alive == 1);
  CHECK(pool.stats().restarts == 1);
  CHECK(pool.stats().sleeping == 1);
  CHECK(w.ms() == 10 + 5 + 100 + 10);
  for (int i = 0; i < 4; ++i) (void)pool.try_post(breaks);
  std::string cause;
  net::co_spawn(w.io, pool_run::cause_of_end(pool), [&](std::exception_ptr, std::string what) { cause = what; });
  w.time.run();
  CHECK(cause == "connection lost");
  CHECK(w.alive == 0);
  CHECK(pool.stats().restarts == 4);
  CHECK(pool.stats().stopped == 1);
}

TEST_CASE("a pool that can't make its resources gives up after its limit, and what waited is stopped") {
  world w;
  w.can_make = false;
  resource_pool<connection> pool{w.io, options(w, 1)};
  auto t = pool.submit([](connection&) {});
  w.time.run();
  CHECK(t.state() == task_state::stopped);
  CHECK(pool.is_closed());
  CHECK(w.ms() == 4 * 10 + 3 * 100);
}

TEST_CASE("a worker waits longer after each failure in a row to make its resource") {
  world w;
  auto o = options(w, 1);
  o.restart = {.limit = 100, .within = 1min, .backoff = {.first = 100ms, .jitter = jitter::none}};
  std::vector<std::int64_t> tried;
  o.make = [&]() -> net::awaitable<connection> {
    tried.push_back(w.ms());
    if (tried.size() % 4 != 0) throw std::runtime_error{"nobody there"};
    co_return connection{w};
  };
  o.destroy = [](connection&) -> net::awaitable<void> { co_return; };
  resource_pool<connection> pool{w.io, o};
  // What succeeds forgets the failures, one that suspends and one that does not.
  (void)pool.try_post([](connection&) {});
  (void)pool.try_post([](connection&) { throw fatal_error{"lost"}; });
  (void)pool.try_post([](connection&, task_context&) -> net::awaitable<void> { co_return; });
  (void)pool.try_post([](connection&) { throw fatal_error{"lost"}; });
  (void)pool.try_post([](connection&) {});
  w.time.run();
  CHECK(tried == std::vector<std::int64_t>{0, 100, 300, 700, 800, 1000, 1400, 2200, 2300, 2500, 2900, 3700});
}

TEST_CASE("a failed operation resets its resource, which is replaced where that fails") {
  world w;
  auto o = options(w, 1);
  o.reset = [&w](connection&) {
    ++w.resets;
    if (!w.can_reset) throw std::runtime_error{"past help"};
  };
  resource_pool<connection> pool{w.io, o};
  auto fails = [](connection&) { throw std::runtime_error{"bad query"}; };
  (void)pool.try_post(fails);
  w.time.run();
  CHECK(w.resets == 1);
  CHECK(w.made == 1);
  w.can_reset = false;
  (void)pool.try_post(fails);
  auto t = pool.submit([](connection& c) { return c.number; });
  w.time.run();
  CHECK(w.made == 2);
  CHECK(w.alive == 1);
  CHECK(pool.stats().restarts == 1);
  CHECK(t.state() == task_state::succeeded);
}

TEST_CASE("a resource is checked between uses and replaced when it is bad") {
  world w;
  auto o = options(w, 1);
  o.check = [&w](connection&) -> net::awaitable<bool> {
    ++w.checks;
    co_return w.good;
  };
  resource_pool<connection> pool{w.io, o};
  auto op = [](connection& c) { return c.number; };
  (void)pool.try_post(op);
  w.time.run();
  CHECK(w.checks == 0);
  (void)pool.try_post(op);
  w.time.run();
  CHECK(w.checks == 1);
  w.good = false;
  auto t = pool.submit(op);
  w.time.run();
  CHECK(w.made == 2);
  CHECK(t.state() == task_state::succeeded);
  CHECK(pool.stats().restarts == 1);
}

TEST_CASE("resources that idle are destroyed down to the minimum") {
  world w;
  auto o = options(w, 4);
  o.idle_timeout = 1s;
  o.min_idle = 1;
  resource_pool<connection> pool{w.io, o};
  for (int i = 0; i < 4; ++i) {
    (void)pool.try_post([](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); });
  }
  w.time.run_for(500ms);
  CHECK(pool.stats().resources == 4);
  w.time.run_for(2s);
  CHECK(pool.stats().resources == 1);
  CHECK(w.alive == 1);
  (void)pool.try_post([](connection&) {});
  w.time.run();
  CHECK(w.made == 4);
}

TEST_CASE("a worker that has lost its resource has none to destroy when it has idled") {
  world w;
  auto o = options(w, 1);
  o.idle_timeout = 1s;
  resource_pool<connection> pool{w.io, o};
  (void)pool.try_post([](connection&) {});
  w.time.run_for(500ms);
  CHECK(w.alive == 1);
  int tries = 0;
  (void)pool.try_post(
      [&tries](connection&) {
        if (++tries == 1) throw fatal_error{"broken"};
        throw std::runtime_error{"no"};
      },
      {.retry = {.attempts = 2, .backoff = backoff::constant(1ms)}});
  (void)pool.try_post([](connection&) { throw fatal_error{"broken, too"}; });
  w.time.run();
  CHECK(tries == 2);
  CHECK(w.alive == 0);
  CHECK(pool.stats().resources == 0);
  CHECK(pool.stats().failed == 2);
}

TEST_CASE("a resource that is being destroyed, or was, does not count") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 1)};
  (void)pool.try_post([](connection&) { throw fatal_error{"broken"}; });
  w.time.run_for(12ms);  // it took 10 to make, and takes 5 to destroy
  CHECK(w.made == 1);
  CHECK(w.destroyed == 0);
  CHECK(pool.stats().resources == 0);
  w.time.run();
  CHECK(w.destroyed == 1);
  CHECK(pool.stats().resources == 0);
}

TEST_CASE("the alarm of a resource that has been lost since finds nothing to destroy") {
  world w;
  auto o = options(w, 2);
  o.idle_timeout = 1s;
  o.restart.backoff = backoff::constant(0s);  // so that nothing else takes its alarm
  resource_pool<connection> pool{w.io, o};
  (void)pool.try_post([](connection&, task_context&) { return sleep_for(1h); });
  (void)pool.try_post([](connection&) {});
  w.time.run_for(500ms);
  CHECK(pool.stats().resources == 2);
  (void)pool.try_post([](connection&) { throw fatal_error{"broken"}; });
  w.time.run_for(3s);
  CHECK(w.destroyed == 1);
  CHECK(pool.stats().resources == 1);
  CHECK(pool.stats().sleeping == 1);
}

TEST_CASE("a worker that is to come back does so once it has gone, whoever is missed before") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 2)};
  std::function<void()> resume;
  auto lost = pool.submit([&](connection&, task_context&) { return pool_run::until(resume); });
  (void)pool.try_post([](connection&) {});
  w.time.run_for(50ms);
  CHECK(pool.stats().resources == 2);
  pool.resize(1);
  w.time.run_for(1ms);  // of five that the end of a resource takes
  resume = nullptr;
  w.time.poll();
  CHECK(lost.state() == task_state::failed);
  pool.resize(2);  // the one that was lost comes back
  w.time.run_for(2ms);
  CHECK(w.destroyed == 0);
  w.time.run_for(50ms);
  CHECK(w.destroyed == 1);
  for (int i = 0; i < 2; ++i) (void)pool.try_post([](connection&, task_context&) { return sleep_for(1h); });
  w.time.run_for(50ms);
  CHECK(pool.stats().working == 2);
  CHECK(w.made == 4);
}

TEST_CASE("a resource that is being made does not outlive a hard stop, nor its context") {
  for (const bool stop : {true, false}) {
    world w;
    {
      resource_pool<connection> pool{w.io, options(w, 2)};
      for (int i = 0; i < 3; ++i)
        (void)pool.try_post([](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(1h); });
      w.time.run_for(stop ? 5ms : 50ms);
      if (stop) {
        pool.request_stop(stop_mode::cancel_all);
        w.time.run();
        CHECK(pool.is_closed());
        CHECK(w.ms() == 5);
      }
    }
    w.time.run();
    CHECK(w.alive == 0);
  }
}

TEST_CASE("a resource pool without a way to make resources is refused") {
  net::io_context io;
  CHECK_THROWS_AS(resource_pool<int>(io, {.concurrency = 1}), std::system_error);
}

TEST_CASE("options of a resource pool out of range are refused by name") {
  world w;
  const auto text = [&](auto change) -> std::string {
    auto o = options(w, 1);
    change(o);
    try {
      resource_pool<connection> pool{w.io, o};
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::invalid_argument);
      return e.what();
    }
    return "";
  };
  CHECK(text([](auto& o) {
          o.idle_timeout = 0s;
        }).find("resource_pool_options.idle_timeout is 0s; allowed: more than 0") != std::string::npos);
  CHECK(text([](auto& o) { o.make = {}; }).find("resource_pool_options.make is empty") != std::string::npos);
  CHECK(text([](auto& o) { o.concurrency = 0; }).find("concurrency is 0") != std::string::npos);
}

TEST_CASE("a worker that leaves before it has destroyed an idle resource finds none when it comes back") {
  world w;
  auto o = options(w, 2);
  o.idle_timeout = 1s;
  resource_pool<connection>* home = nullptr;
  o.destroy = [&](connection&) -> net::awaitable<void> {
    if (++w.destroyed > 1) co_return;
    home->resize(1);  // while the other worker is about to do the same
    co_await sleep_for(1ms);
  };
  resource_pool<connection> pool{w.io, o};
  home = &pool;
  const auto work = [](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(1ms); };
  for (int i = 0; i < 2; ++i) (void)pool.try_post(work);
  w.time.run();
  CHECK(w.made == 2);
  CHECK(w.destroyed == 2);
  CHECK(pool.stats().resources == 0);
  pool.resize(2);
  for (int i = 0; i < 2; ++i) (void)pool.try_post(work);
  w.time.run();
  CHECK(w.made == 4);
  CHECK(w.destroyed == 4);
  CHECK(pool.stats().succeeded == 4);
  CHECK(pool.stats().resources == 0);
}

TEST_CASE("a worker that is lost over its resource is replaced, and nothing of it stays") {
  const std::string place = GENERATE("make", "check", "reset", "destroy", "operation", "stop");
  INFO(place);
  world w;
  bool has_dropped = false;
  const auto maybe_drop = [&](const char* here) -> net::awaitable<void> {
    if (place != here || std::exchange(has_dropped, true)) co_return;
    const auto never_called = [](auto handler) { auto dropped = std::move(handler); };
    co_await net::async_initiate<const net::use_awaitable_t<>, void()>(never_called, net::use_awaitable);
  };
  auto o = options(w, 1);
  o.idle_timeout = 1min;
  o.make = [&]() -> net::awaitable<connection> {
    co_await maybe_drop("make");
    co_return connection{w};
  };
  o.check = [&](connection&) -> net::awaitable<bool> {
    co_await maybe_drop("check");
    co_return true;
  };
  o.reset = [&](connection&) -> net::awaitable<void> { co_await maybe_drop("reset"); };
  o.destroy = [&](connection&) -> net::awaitable<void> {
    co_await maybe_drop("destroy");
    co_await maybe_drop("stop");
  };
  resource_pool<connection> pool{w.io, o};
  int ran = 0;
  const auto work = [&](connection&, task_context&) -> net::awaitable<void> {
    co_await maybe_drop("operation");
    if (++ran == 1) throw std::runtime_error{"to be reset"};
  };
  const auto nothing_holds_the_loop = [&w] {
    w.io.restart();
    w.io.poll();
    return w.io.stopped();
  };
  for (int i = 0; i < 3; ++i) {
    (void)pool.try_post(work);
    w.time.run_for(1s);
    CHECK(pool.stats().resources == static_cast<std::size_t>(w.alive));
    CHECK(pool.stats().repairing == 0);
    CHECK(nothing_holds_the_loop());
  }
  CHECK(ran == (place == "operation" ? 2 : 3));
  if (place != "stop") {
    w.time.run_for(2min);  // as an idle one
    CHECK(nothing_holds_the_loop());
    CHECK(pool.stats().resources == 0);
    CHECK(pool.stats().sleeping == 1);
    (void)pool.try_post(work);
    w.time.run_for(1s);
  }
  pool.request_stop(stop_mode::drain);
  w.time.run();
  CHECK(pool.is_closed());
  CHECK(has_dropped);
  CHECK(w.alive == 0);
  CHECK(pool.stats().resources == 0);
  CHECK(nothing_holds_the_loop());
}

TEST_CASE("a resize to less keeps the workers that have a resource") {
  world w;
  const std::size_t warm = GENERATE(1u, 3u);
  resource_pool<connection> pool{w.io, options(w, 4)};
  w.time.run();
  for (std::size_t i = 0; i < warm; ++i) {
    (void)pool.try_post([](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); });
  }
  w.time.run();
  CHECK(pool.stats().resources == warm);
  SECTION("that sleep") {
    pool.resize(1);
    w.time.run();
  }
  SECTION("that just work") {
    (void)pool.try_post([](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); });
    w.time.run_for(50ms);
    pool.resize(1);
    w.time.run();
  }
  SECTION("that end their work before those that are to go have gone") {
    (void)pool.try_post([&pool](connection&) { pool.resize(1); });
    w.time.run();
  }
  CHECK(pool.stats().resources == 1);
  CHECK(w.alive == 1);
  CHECK(w.made == static_cast<int>(warm));
  (void)pool.try_post([](connection&) {});
  w.time.run();
  CHECK(w.made == static_cast<int>(warm));
}

TEST_CASE("workers that were told to go come back where more are wanted before they have gone") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 4)};
  w.time.run();
  pool.resize(1);
  pool.resize(4);
  int running = 0, most = 0;
  for (int i = 0; i < 8; ++i) {
    (void)pool.try_post([&](connection&, task_context&) -> net::awaitable<void> {
      most = std::max(most, ++running);
      co_await sleep_for(100ms);
      --running;
    });
  }
  w.time.run();
  CHECK(most == 4);
  CHECK(pool.stats().succeeded == 8);
}

TEST_CASE("workers that were told to go and have not gone stay at once, and keep their resources") {
  world w;
  resource_pool<connection> pool{w.io, options(w, 4)};
  const auto busy = [](connection&, task_context&) -> net::awaitable<void> { co_await sleep_for(100ms); };
  w.time.run();
  for (int i = 0; i < 3; ++i) (void)pool.try_post(busy);
  w.time.run();
  REQUIRE(pool.stats().resources == 3);
  pool.resize(1);
  std::size_t wanted = 4;
  SECTION("all") {}
  SECTION("some: those that have a resource") { wanted = 3; }
  SECTION("none, of those that were told so again") {
    wanted = 1;
    pool.resize(4);
    pool.resize(1);
  }
  pool.resize(wanted);
  CHECK(pool.stats().resources == 3);
  for (int i = 0; i < 8; ++i) (void)pool.try_post(busy);
  w.time.run_for(50ms);
  CHECK(pool.stats().working == wanted);
  CHECK(w.made == std::max(3, static_cast<int>(wanted)));
  w.time.run();
  CHECK(pool.stats().resources == wanted);
  CHECK(pool.stats().succeeded == 11);
}

namespace {

/// A pool of one, of whose functions one hangs, if only the first time.
struct hung : world {
  explicit hung(std::string function, bool always = false) : where{std::move(function)}, is_always{always} {
    o.make = [this]() -> net::awaitable<connection> {
      co_await maybe_hang("make");
      co_return connection{*this};
    };
    o.check = [this](connection&) -> net::awaitable<bool> {
      co_await maybe_hang("check");
      co_return true;
    };
    o.reset = [this](connection&) { return maybe_hang("reset"); };
    o.destroy = [this](connection&) { return maybe_hang("destroy"); };
    o.restart.backoff = backoff::constant(0s);
  }
  net::awaitable<void> maybe_hang(const char* here) {
    if (where != here || (!is_always && std::exchange(has_hung, true))) co_return;
    std::exception_ptr e;
    try {
      co_await sleep_for(1000h);
    } catch (...) {
      e = std::current_exception();
    }
    if (e) throw std::runtime_error{"of its own making"};
  }
  std::string where;
  bool is_always;
  bool has_hung = false;
  resource_pool_options<connection> o = options(*this, 1);
};

}  // namespace

TEST_CASE("a function of a resource that hangs is cancelled when its time is up, and its worker goes on") {
  const std::string place = GENERATE("make", "check", "reset", "destroy");
  INFO(place);
  hung w{place};
  w.o.call_timeout = 3s;
  resource_pool<connection> pool{w.io, w.o};
  (void)pool.try_post([](connection&) {});
  (void)pool.try_post([](connection&) { throw std::runtime_error{"reset it"}; });
  (void)pool.try_post([](connection&) { throw fatal_error{"destroy it"}; });
  auto last = pool.submit([](connection&) {});
  w.time.run();
  CHECK(last.state() == task_state::succeeded);
  CHECK(w.has_hung);
  CHECK(w.ms() == 3000);
  bool closed = false;
  w.spawn([&]() -> net::awaitable<void> {
    co_await pool.stop(stop_mode::drain);
    closed = true;
  });
  w.time.run();
  CHECK(closed);
  CHECK(w.alive == 0);
  CHECK(time_source::of(w.io.get_executor()).idle());
}

TEST_CASE("a pool whose resources are never made stops, and says why") {
  hung w{"make", true};
  w.o.call_timeout = 5s;
  resource_pool<connection> pool{w.io, w.o};
  auto t = pool.submit([](connection&) {});
  std::string why;
  w.spawn([&]() -> net::awaitable<void> {
    try {
      (void)co_await pool.closed();
    } catch (const std::system_error& e) {
      CHECK(e.code() == errc::timed_out);
      why = e.what();
    }
  });
  w.time.run();
  CHECK(t.state() == task_state::stopped);
  CHECK(why.find("resource_pool_options.make") == 0);
  CHECK(w.ms() == 20'000);
}

TEST_CASE("a stop is not held up for ever by a resource that takes no leave") {
  hung w{"destroy", true};
  w.o.call_timeout = 2s;
  resource_pool<connection> pool{w.io, w.o};
  (void)pool.try_post([](connection&) {});
  w.time.run();
  bool closed = false;
  w.spawn([&]() -> net::awaitable<void> {
    co_await pool.stop();
    closed = true;
  });
  w.time.run();
  CHECK(closed);
  CHECK(w.ms() == 2000);
  CHECK(w.alive == 0);
}

TEST_CASE("a function that ends well although its time is up has done its work") {
  world w;
  auto o = options(w, 1);
  o.call_timeout = 1s;
  o.make = [&]() -> net::awaitable<connection> {
    co_await pool_run::stubborn(5s);
    co_return connection{w};
  };
  resource_pool<connection> pool{w.io, o};
  auto t = pool.submit([](connection&) {});
  w.time.run();
  CHECK(t.state() == task_state::succeeded);
  CHECK(w.made == 1);
  CHECK(w.ms() == 5000);
}

TEST_CASE("nothing of what a function of a resource does to its cancellation reaches the next operation") {
  const std::string place = GENERATE("make", "check", "reset", "destroy", "operation");
  INFO(place);
  world w;
  bool has_run = false;
  const auto disturb = [&](const char* here) -> net::awaitable<void> {
    if (place != here) co_return;
    has_run = true;
    co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
    co_await net::this_coro::throw_if_cancelled(false);
  };
  auto o = options(w, 1);
  o.make = [&]() -> net::awaitable<connection> {
    co_await disturb("make");
    co_return connection{w};
  };
  // A check would put right what others before it have left.
  if (place == "check") {
    o.check = [&](connection&) -> net::awaitable<bool> {
      co_await disturb("check");
      co_return true;
    };
  }
  o.reset = [&](connection&) { return disturb("reset"); };
  o.destroy = [&](connection&) { return disturb("destroy"); };
  resource_pool<connection> pool{w.io, o};
  (void)pool.try_post([](connection&) {});
  (void)pool.try_post([&](connection&, task_context&) -> net::awaitable<void> {
    co_await disturb("operation");
    throw std::runtime_error{"reset it"};
  });
  if (place == "destroy") (void)pool.try_post([](connection&) { throw fatal_error{"destroy it"}; });
  std::function<void()> resume;
  bool went_on = false;
  auto t = pool.submit([&](connection&, task_context&) -> net::awaitable<void> {
    co_await pool_run::until(resume);
    co_await sleep_for(0s);
    went_on = true;
  });
  w.time.run();
  CHECK(has_run);
  CHECK(t.state() == task_state::running);
  t.cancel();
  w.time.poll();
  resume();
  w.time.run();
  CHECK_FALSE(went_on);
  CHECK(t.state() == task_state::cancelled);
}

TEST_CASE("nothing of what a resource's destruction does to its cancellation reaches the next one's making") {
  world w;
  std::function<void()> resume;
  bool went_on = false;
  auto o = options(w, 1);
  o.call_timeout = 1s;
  o.make = [&]() -> net::awaitable<connection> {
    if (w.made == 1 && !resume) {
      co_await pool_run::until(resume);
      co_await sleep_for(0s);
      went_on = true;
    }
    co_return connection{w};
  };
  o.destroy = [](connection&) -> net::awaitable<void> {
    co_await net::this_coro::reset_cancellation_state(net::disable_cancellation());
    co_await net::this_coro::throw_if_cancelled(false);
  };
  resource_pool<connection> pool{w.io, o};
  (void)pool.try_post([](connection&) { throw fatal_error{"destroy it"}; });
  auto t = pool.submit([](connection&) {});
  w.time.run();
  REQUIRE(resume);
  CHECK(w.ms() >= 1000);
  resume();
  w.time.run();
  CHECK_FALSE(went_on);
  CHECK(t.state() == task_state::succeeded);
  CHECK(pool.stats().restarts == 2);
}
