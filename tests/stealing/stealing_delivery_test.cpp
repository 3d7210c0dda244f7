// Limits and pools on work_stealing: callers and operations go into the queue of the thread that lets them go.

#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/work_stealing.hpp"

#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace net = canigo::net;
using canigo::permit;
using canigo::semaphore;
using canigo::work_stealing;

namespace stealing_delivery_run {

/// Notes the answer to an async_acquire, and keeps the permit.
struct answer {
  std::optional<std::error_code> error;
  permit held;
  auto handler() {
    return [this](std::error_code e, permit p) {
      error = e;
      held = std::move(p);
    };
  }
  bool was_let_in() const { return error && !*error; }
};

}  // namespace stealing_delivery_run

using namespace stealing_delivery_run;

TEST_CASE("callers of a limit are resumed in order, after the function that lets them go", "[work_stealing]") {
  net::io_context io;
  work_stealing pool{io};
  semaphore slots{pool, {.permits = 1}};
  std::vector<int> order;
  const auto take = [&](int number) -> net::awaitable<void> {
    const permit held = co_await slots.acquire();
    order.push_back(number);
  };
  std::optional<permit> first = slots.try_acquire();
  for (int i = 1; i <= 300; ++i) net::co_spawn(pool.get_executor(), take(i), net::detached);
  net::post(pool.get_executor(), [&] {
    first.reset();
    order.push_back(0);
  });
  io.run();
  CHECK(order.size() == 301);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a limit goes while a permit is on its way to a caller", "[work_stealing]") {
  net::io_context io;
  work_stealing pool{io};
  auto slots = std::make_unique<semaphore>(pool, canigo::semaphore_options{.permits = 1});
  std::optional<permit> first = slots->try_acquire();
  answer granted;
  answer left;
  slots->async_acquire({}, granted.handler());
  slots->async_acquire({}, left.handler());
  net::post(pool.get_executor(), [&] {
    first.reset();
    slots.reset();
  });
  io.run();
  CHECK(granted.was_let_in());
  CHECK(left.error == make_error_code(canigo::errc::stopped));
}

TEST_CASE("the io_context goes while a permit is on its way to a caller, and others wait", "[work_stealing]") {
  const auto witness = std::make_shared<int>(0);
  {
    std::optional<semaphore> outlives;
    net::io_context io;
    const auto run = [&](semaphore& slots) {
      std::optional<permit> first = slots.try_acquire();
      for (int i = 0; i < 100; ++i) {
        slots.async_acquire({}, [witness](std::error_code, const permit&) { ++*witness; });
      }
      first.reset();
    };
    SECTION("work_stealing was there first") {
      work_stealing pool{io};
      outlives.emplace(pool, canigo::semaphore_options{.permits = 1});
      run(*outlives);
    }
    SECTION("another limit was there first") {
      const semaphore other{io, {.permits = 1}};
      work_stealing pool{io};
      outlives.emplace(pool, canigo::semaphore_options{.permits = 1});
      run(*outlives);
    }
  }
  CHECK(*witness == 0);
  CHECK(witness.use_count() == 1);
}

TEST_CASE("a caller that cancels loses its place, and a permit that is on its way stays good", "[work_stealing]") {
  net::io_context io;
  work_stealing pool{io};
  semaphore slots{pool, {.permits = 1}};
  std::optional<permit> first = slots.try_acquire();
  net::cancellation_signal signal;
  answer cancelled;
  answer next;
  slots.async_acquire({}, net::bind_cancellation_slot(signal.slot(), cancelled.handler()));
  slots.async_acquire({}, next.handler());
  SECTION("while it waits") {
    net::post(pool.get_executor(), [&] {
      signal.emit(net::cancellation_type::terminal);
      first.reset();
    });
    io.run();
    CHECK(cancelled.error == make_error_code(net::error::operation_aborted));
    CHECK(next.was_let_in());
  }
  SECTION("when it has been let in") {
    net::post(pool.get_executor(), [&] {
      first.reset();
      signal.emit(net::cancellation_type::terminal);
    });
    io.poll();
    CHECK(cancelled.was_let_in());
    CHECK_FALSE(next.error);
    cancelled.held = {};
    io.run();
    CHECK(next.was_let_in());
  }
}

TEST_CASE("callers on other executors, and limits on them, meet those of work_stealing", "[work_stealing]") {
  net::io_context io;
  net::io_context elsewhere;
  work_stealing pool{io};
  const auto strand = net::make_strand(pool.get_executor());
  const auto visit = [&](semaphore& slots) {
    std::optional<permit> first = slots.try_acquire();
    answer here;
    answer on_loop;
    answer on_other_loop;
    answer on_strand;
    slots.async_acquire({}, net::bind_executor(pool.get_executor(), here.handler()));
    slots.async_acquire({}, net::bind_executor(io.get_executor(), on_loop.handler()));
    slots.async_acquire({}, net::bind_executor(elsewhere.get_executor(), on_other_loop.handler()));
    slots.async_acquire({}, net::bind_executor(strand, on_strand.handler()));
    first.reset();
    for (int i = 0; i < 10; ++i) {
      for (net::io_context* loop : {&io, &elsewhere}) {
        loop->restart();
        loop->poll();
      }
      for (answer* a : {&here, &on_loop, &on_other_loop, &on_strand}) a->held = {};
    }
    CHECK(here.was_let_in());
    CHECK(on_loop.was_let_in());
    CHECK(on_other_loop.was_let_in());
    CHECK(on_strand.was_let_in());
  };
  semaphore stealing{pool, {.permits = 1}};
  semaphore plain{elsewhere, {.permits = 1}};
  visit(stealing);
  visit(plain);
}

TEST_CASE("a rate of a limit on work_stealing is exact in virtual time", "[work_stealing]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  work_stealing pool{io};
  canigo::scheduler tokens{pool, {.rate = canigo::rate{10, 1s}}};
  std::vector<canigo::time_point> went;
  const auto go = [&]() -> net::awaitable<void> {
    co_await tokens.acquire();
    went.push_back(time.now());
  };
  for (int i = 0; i < 30; ++i) net::co_spawn(pool.get_executor(), go(), net::detached);
  const auto start = time.now();
  time.run();
  REQUIRE(went.size() == 30);
  CHECK(went.back() - start == 3s);
}

TEST_CASE("a pool on work_stealing runs each operation once, by several threads", "[work_stealing][realtime]") {
  net::io_context io;
  work_stealing stealing{io};
  constexpr int many = 5000;
  std::vector<std::atomic<int>> runs(many);
  std::atomic<int> inside{0};
  std::atomic<bool> was_over{false};
  canigo::strand_pool pool{stealing, {.concurrency = 4, .queue_limit = many}};
  for (int i = 0; i < many; ++i) {
    const auto operation = [&, i]() -> net::awaitable<void> {
      if (++inside > 4) was_over = true;
      co_await net::post(net::use_awaitable);
      ++runs[static_cast<std::size_t>(i)];
      --inside;
    };
    REQUIRE(pool.try_post(operation));
  }
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) others.emplace_back([&] { io.run(); });
  io.run();
  for (auto& t : others) t.join();
  CHECK(std::all_of(runs.begin(), runs.end(), [](const auto& n) { return n == 1; }));
  CHECK_FALSE(was_over);
}

TEST_CASE("a limiter on work_stealing keeps its cap, and loses no permit, among several threads",
          "[work_stealing][realtime]") {
  net::io_context io;
  work_stealing stealing{io};
  canigo::limiter limit{stealing, {.rates = {{canigo::rate{1, 1ns}, 1'000'000'000, 1'000'000'000}}, .concurrency = 3}};
  std::atomic<int> inside{0};
  std::atomic<bool> was_over{false};
  std::atomic<int> ended{0};
  const auto work = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 300; ++i) {
      const permit held = co_await limit.acquire();
      if (++inside > 3) was_over = true;
      co_await net::post(net::use_awaitable);
      --inside;
    }
    ++ended;
  };
  for (int i = 0; i < 20; ++i) net::co_spawn(stealing.get_executor(), work(), net::detached);
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i) others.emplace_back([&] { io.run(); });
  io.run();
  for (auto& t : others) t.join();
  CHECK(ended == 20);
  CHECK_FALSE(was_over);
}
