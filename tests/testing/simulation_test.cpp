#include "canigo/testing/simulation.hpp"

#include "canigo/gate.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"

#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;
using testing::simulation;

namespace {

std::string order_of(std::uint64_t seed, int handlers) {
  simulation world{seed};
  std::string order;
  for (int i = 0; i < handlers; ++i) {
    net::post(world.get_executor(), [&order, i] { order += static_cast<char>('a' + i); });
  }
  world.run();
  return order;
}

}  // namespace

TEST_CASE("a seed is an order, and the same one every time", "[simulation]") {
  std::set<std::string> orders;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const std::string order = order_of(seed, 4);
    CHECK(order.size() == 4);
    CHECK(order == order_of(seed, 4));
    orders.insert(order);
  }
  CHECK(orders.size() == 24);
  CHECK(order_of(1, 8) == "bagfhcde");  // whatever the compiler
}

TEST_CASE("a strand of a simulation runs at once what is dispatched inside of it", "[simulation]") {
  simulation world{1};
  const net::any_io_executor strand = net::make_strand(net::any_io_executor{world.get_executor()});
  std::string order;
  net::post(strand, [&] {
    net::dispatch(strand, [&] { order += "inside "; });
    order += "after";
  });
  world.run();
  CHECK(order == "inside after");
  net::dispatch(world.get_executor(), [&] { order.clear(); });
  CHECK(order == "inside after");  // it was queued
  world.run();
  CHECK(order.empty());
}

TEST_CASE("a simulation's time is virtual and exact", "[simulation]") {
  simulation world{7, time_point{1h}};
  std::vector<duration> woke;
  for (const duration d : {3s, 1s, 2s}) {
    net::co_spawn(world.get_executor(), sleep_for(d), [&](std::exception_ptr) { woke.push_back(world.elapsed()); });
  }
  world.run_for(2s);
  CHECK(woke == std::vector<duration>{1s, 2s});
  CHECK(world.now() == time_point{1h + 2s});
  world.run();
  CHECK(woke.back() == 3s);
  CHECK(world.steps() > 3);
  CHECK(world.seed() == 7);
}

TEST_CASE("a race that a run in order never shows is found by some seed", "[simulation]") {
  // Two who look before they leap: both see 0 unless one has leapt before the other looks.
  int lost = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    simulation world{seed};
    int count = 0;
    const auto add = [](int& n) -> net::awaitable<void> {
      const int seen = n;
      co_await sleep_for(0s);
      n = seen + 1;
    };
    for (int i = 0; i < 2; ++i) net::co_spawn(world.get_executor(), add(count), net::detached);
    world.run();
    lost += count == 1 ? 1 : 0;
  }
  CHECK(lost > 0);
  CHECK(lost < 100);
}

TEST_CASE("who waits for the last instant runs when it comes, and is counted", "[simulation]") {
  simulation world{1};
  bool woke = false;
  net::co_spawn(world.get_executor(), sleep_until(time_point::max()), [&](const std::exception_ptr&) { woke = true; });
  world.run_until(time_point::max() - 1ns);
  CHECK_FALSE(woke);
  const std::size_t handlers = world.run_until(time_point::max());
  CHECK(woke);
  CHECK(handlers > 0);
  CHECK(handlers < 100);
}

TEST_CASE("all of time passes, and nothing is run at once", "[simulation]") {
  simulation world{1};
  const auto executor = world.get_executor();
  CHECK(executor.query(net::execution::blocking) == net::execution::blocking.possibly);
  const auto never = net::require(executor, net::execution::blocking.never);
  CHECK(never.query(net::execution::blocking) == net::execution::blocking.never);
  bool ran = false;
  const auto handler = [&ran] { ran = true; };
  executor.execute(handler);
  CHECK_FALSE(ran);
  world.run_until(time_point::max());
  CHECK(ran);
  CHECK(world.now() == time_point::max());
}

namespace {

struct endless {
  void operator()() const { net::post(world->get_executor(), *this); }
  simulation* world;
};

}  // namespace

TEST_CASE("handlers that call each other for ever end a simulation", "[simulation]") {
  simulation world{1};
  endless{&world}();
  CHECK_THROWS_AS(world.run(), std::runtime_error);
}

TEST_CASE("a strand keeps its order", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    simulation world{seed};
    const auto strand = net::make_strand(world.get_executor());
    std::string order;
    for (char c = 'a'; c < 'h'; ++c) net::post(strand, [&order, c] { order += c; });
    world.run();
    CHECK(order == "abcdefg");
  }
}

TEST_CASE("all of canigo runs in a simulation, in any order", "[simulation]") {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    simulation world{seed};
    const auto executor = world.get_executor();
    scheduler s{executor, {.rate = rate::per_second(100), .priorities = 2}};
    semaphore m{executor, {.permits = 2}};
    strand_pool pool{executor, {.concurrency = 2}};
    gate g{executor};
    int done = 0;
    const auto visit = [&](int i) -> net::awaitable<void> {
      const permit inside = g.enter();
      co_await s.acquire(i % 2);
      const permit p = co_await m.acquire();
      co_await with_timeout(sleep_for(3ms), 1s);
      const auto slow = [](task_context&) -> net::awaitable<int> {
        co_await sleep_for(1ms);
        co_return 1;
      };
      done += co_await pool.run(slow);
    };
    const auto all = [&]() -> net::awaitable<void> {
      task_group group{executor};
      for (int i = 0; i < 6; ++i) group.spawn(visit(i));
      co_await group.join();
      co_await g.close();
      co_await pool.stop();
      done += 100;
    };
    net::co_spawn(executor, all(), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    world.run();
    INFO("seed " << seed);
    CHECK(done == 106);
  }
}

TEST_CASE("chance comes from the seed, too, within its bound", "[simulation]") {
  simulation one{5}, same{5}, other{6};
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const auto n = one.random(10);
    CHECK(n < 10);
    CHECK(n == same.random(10));
    differs = differs || n != other.random(10);
  }
  CHECK(differs);
  CHECK(one.random(1) == 0);
}

TEST_CASE("what a handler throws comes out of the run, and the next run goes on", "[simulation]") {
  simulation world{1};
  int ran = 0;
  net::post(world.get_executor(), [] { throw std::runtime_error{"from a handler"}; });
  net::post(world.get_executor(), [&] { ++ran; });
  CHECK_THROWS_WITH(world.run(), "from a handler");
  world.run();
  CHECK(ran == 1);
}

TEST_CASE("a simulation that goes takes with it whoever waits", "[simulation]") {
  const auto alive = std::make_shared<int>(1);
  {
    simulation world{1};
    scheduler s{world.get_executor(), {.rate = rate::per_hour(1)}};
    const auto wait = [](scheduler& from, std::shared_ptr<int>) -> net::awaitable<void> { co_await from.acquire(); };
    const auto doze = [](std::shared_ptr<int>) -> net::awaitable<void> { co_await with_timeout(sleep_for(1h), 2h); };
    for (int i = 0; i < 3; ++i) {
      net::co_spawn(world.get_executor(), wait(s, alive), net::detached);
      net::co_spawn(world.get_executor(), doze(alive), net::detached);
      s.async_acquire({}, [alive](std::error_code) {});
    }
    world.run_for(1s);
    net::co_spawn(world.get_executor(), wait(s, alive), net::detached);  // not even begun
    CHECK(alive.use_count() == 11);
  }
  CHECK(alive.use_count() == 1);
}
