// The threads of a pool run in real time: [realtime].

#include "canigo/thread_pool.hpp"

#include "canigo/error.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

using namespace std::chrono_literals;
namespace net = canigo::net;
using canigo::thread_pool;

TEST_CASE("join() waits until no work is left", "[thread_pool][realtime]") {
  thread_pool pool{3};
  CHECK(pool.size() == 3);
  std::atomic<int> calls{0};
  for (int i = 0; i < 1000; ++i) {
    net::post(pool, [&] {
      net::post(pool, [&] { ++calls; });
      ++calls;
    });
  }
  pool.join();
  CHECK(calls == 2000);
  pool.join();
}

TEST_CASE("timers, limits and coroutines run on a pool as on an io_context", "[thread_pool][realtime]") {
  thread_pool pool{2};
  canigo::semaphore slots{pool, {.permits = 2}};
  net::steady_timer timer{pool, 1ms};
  std::atomic<int> ended{0};
  timer.async_wait([&](std::error_code) { ++ended; });
  const auto work = [&]() -> net::awaitable<void> {
    const auto held = co_await slots.acquire();
    co_await canigo::sleep_for(100us);
    ++ended;
  };
  for (int i = 0; i < 10; ++i) net::co_spawn(pool, work(), net::detached);
  CHECK(net::co_spawn(pool, []() -> net::awaitable<int> { co_return 7; }, net::use_future).get() == 7);
  pool.join();
  CHECK(ended == 11);
}

TEST_CASE("after stop() the rest is destroyed with the pool, and not called", "[thread_pool][realtime]") {
  const auto witness = std::make_shared<int>(0);
  std::atomic<bool> is_full{false};
  {
    thread_pool pool{1};
    net::post(pool, [&] {
      while (!is_full) std::this_thread::yield();
      pool.stop();
    });
    for (int i = 0; i < 1000; ++i) net::post(pool, [witness] { ++*witness; });
    is_full = true;
  }
  CHECK(*witness < 1000);
  CHECK(witness.use_count() == 1);
}

TEST_CASE("a pool has at least one thread, and 1024 at most", "[thread_pool][realtime]") {
  CHECK(thread_pool{}.size() >= 1);
  for (const std::size_t n : {std::size_t{0}, std::size_t{1025}}) {
    CHECK(refusal([&] { thread_pool{n}; }).find("thread_pool.threads") != std::string::npos);
  }
}
