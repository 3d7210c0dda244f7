// What work_stealing needs of the heap: nothing in steady state, and no allocation whose failure loses a function.
// Replaces the heap, so it is a program of its own.

#include "canigo/work_stealing.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>
#include <vector>

using namespace allocations;
namespace net = canigo::net;
using canigo::work_stealing;

namespace {

using executor = work_stealing::executor_type;

/// Posts itself again, `left` times.
struct chain {
  executor ex;
  int left;
  void operator()() const {
    if (left > 0) net::post(ex, chain{ex, left - 1});
  }
};

/// The same as a coroutine, by the any_io_executor that it was spawned with.
net::awaitable<void> yields(int n) {
  for (int i = 0; i < n; ++i) co_await net::post(net::use_awaitable);
}

/// A function of the largest size that fits a block.
struct large {
  std::array<std::byte, 232> bytes;
  void operator()() const {}
};

}  // namespace

TEST_CASE("posts of one thread allocate nothing in steady state") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  const auto run = [&](int n, int times) {
    for (int i = 0; i < n; ++i) net::post(ex, chain{ex, times});
    io.restart();
    io.run();
  };
  run(40, 100);
  const counted c;
  run(40, 1000);
  for (int i = 0; i < 40; ++i) net::post(ex, large{});
  io.restart();
  io.run();
  CHECK((!blocks_are_cached || c.so_far() == 0));
}

TEST_CASE("a thread and a helper that comes and goes allocate a few times, whatever the number of posts") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  const auto run = [&](int times) {
    for (int i = 0; i < 40; ++i) net::post(ex, chain{ex, times});
    io.restart();
    std::thread other{[&] { io.run(); }};
    io.run();
    other.join();
  };
  run(1000);
  const counted c;
  run(20000);
  // A thread, and the blocks that it has no more when it goes; of 800,000 posts.
  CHECK((!blocks_are_cached || c.so_far() < 2000));
}

TEST_CASE("yields of coroutines allocate nothing in steady state") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::int64_t during = -1;
  const auto measure = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 100; ++i) co_await net::post(net::use_awaitable);
    const counted c;
    for (int i = 0; i < 1000; ++i) co_await net::post(net::use_awaitable);
    during = c.so_far();
  };
  for (int i = 0; i < 20; ++i) net::co_spawn(ex, yields(5000), net::detached);
  net::co_spawn(ex, measure(), net::detached);
  io.run();
  CHECK((!blocks_are_cached || during == 0));
}

TEST_CASE("without memory for a post it throws, and all that was posted is called") {
  const std::int64_t failed = for_every_allocation([](std::int64_t k) {
    net::io_context io;
    const auto ex = work_stealing{io}.get_executor();
    int posted = 0;
    int calls = 0;
    const auto post = [&](auto f) {
      if (attempt([&] { ex.execute(std::move(f)); })) ++posted;
    };
    bool has_failed = false;
    {
      failing one{k};
      for (int i = 0; i < 300; ++i) {
        post([&, filler = large{}] {
          ++calls;
          // The first of these needs a second pump.
          post([&calls, filler] {
            filler();
            ++calls;
          });
        });
      }
      if (!attempt([&] { io.run(); })) io.run();
      has_failed = one.stop();
    }
    CHECK(calls == posted);
    CHECK(io.stopped());
    return has_failed;
  });
  CHECK(failed > 100);
}
