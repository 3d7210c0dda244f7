// What waiting needs of the heap: nothing, once it has run a while. A program of its own, as it replaces the heap.

#include "canigo/cancel_after.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/timeout.hpp"

#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/timeline.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

using namespace allocations;
using namespace canigo;
using namespace std::chrono_literals;

namespace {

scheduler_options plenty() {
  return {.rate = rate::per_second(1'000'000'000), .burst = 1'000'000'000, .priorities = 3};
}

/// Allocations in the second half of `turns` calls of a coroutine, all inside one run of the loop and in its own time:
/// Asio's caches last for one run. Catches no exception: a turn that throws fails the test.
template <class Turn>
std::int64_t allocated_by_turns(net::io_context& io, int turns, Turn turn) {
  std::int64_t during = -1;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        std::optional<counted> c;
        for (int i = 0; i < turns; ++i) {
          if (i == turns / 2) c.emplace();
          co_await turn();
        }
        during = c->so_far();
      },
      [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
  io.restart();
  io.run();
  return during;
}

/// The same for a callback that starts the next operation: `start(handler)`.
template <class Start>
std::int64_t allocated_by_callbacks(net::io_context& io, int turns, Start start) {
  struct again {
    Start& start;
    int& left;
    std::int64_t& before;
    int half;
    void operator()(std::error_code) const {
      if (left == half) before = made;
      if (--left > 0) start(*this);
    }
  };
  int left = turns;
  std::int64_t before = -1;
  start(again{start, left, before, turns / 2});
  io.restart();
  io.run();
  REQUIRE(left == 0);
  return made - before;
}

/// An allocator whose blocks come from a fixed place, and are counted.
struct pool_of_blocks {
  alignas(std::max_align_t) std::array<std::array<std::byte, 512>, 64> blocks;
  std::array<bool, 64> taken{};
  int takes = 0;
  int out = 0;
};

template <class T>
struct pool_allocator {
  using value_type = T;
  explicit pool_allocator(pool_of_blocks& p) noexcept : pool{&p} {}
  template <class U>
  pool_allocator(const pool_allocator<U>& other) noexcept : pool{other.pool} {}
  T* allocate(std::size_t n) {
    for (std::size_t i = 0; n * sizeof(T) <= 512 && i < pool->taken.size(); ++i) {
      if (pool->taken[i]) continue;
      pool->taken[i] = true;
      ++pool->takes;
      ++pool->out;
      return reinterpret_cast<T*>(pool->blocks[i].data());
    }
    throw std::bad_alloc{};
  }
  void deallocate(T* p, std::size_t) noexcept {
    const auto at = reinterpret_cast<std::byte*>(p) - pool->blocks[0].data();
    pool->taken[static_cast<std::size_t>(at) / 512] = false;
    --pool->out;
  }
  template <class U>
  bool operator==(const pool_allocator<U>& other) const noexcept {
    return pool == other.pool;
  }
  pool_of_blocks* pool;
};

struct pooled_handler {
  using allocator_type = pool_allocator<void>;
  allocator_type allocator;
  int* ended;
  std::error_code* how;
  allocator_type get_allocator() const noexcept { return allocator; }
  void operator()(std::error_code ec) const {
    ++*ended;
    *how = ec;
  }
};

}  // namespace

TEST_CASE("the counter counts", "[memory]") {
  const counted c;
  const std::unique_ptr<int> one{new int{1}};
  const std::vector<int> two(100);
  CHECK(c.so_far() == 2);
}

TEST_CASE("what does not wait allocates nothing", "[memory]") {
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .burst = 3000, .initial_tokens = 3000, .priorities = 3}};
  int granted = 0;
  const counted c;
  for (int i = 0; i < 1000; ++i) {
    granted += s.try_acquire(i % 3) ? 1 : 0;
    granted += s.try_acquire({.tokens = 2}) ? 1 : 0;
    granted += s.try_acquire() ? 1 : 0;
    s.refund(1);
    s.charge(1);
    s.pause();
    s.pause_until(time_point::max());
    s.resume();
    s.set_burst(3000);
    s.set_rate(rate::per_hour(1));
    (void)s.estimate({.priority = 1, .tokens = 7});
  }
  CHECK(c.so_far() == 0);
  CHECK(granted > 2000);
}

TEST_CASE("an acquire that is granted at once allocates nothing, also where it passes through the loop", "[memory]") {
  net::io_context io{1};
  scheduler s{io, plenty()};
  CHECK(allocated_by_turns(io, 4000, [&] { return s.acquire(); }) == 0);
}

TEST_CASE("an acquire that waits allocates nothing", "[memory]") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  scheduler s{io, {.rate = rate::per_second(100'000), .priorities = 3}};
  SECTION("by itself") {
    CHECK(allocated_by_turns(io, 1000, [&] { return s.acquire(1); }) == 0);
  }
  SECTION("with a deadline") {
    CHECK(allocated_by_turns(io, 1000, [&] {
            return s.acquire({.priority = 2, .deadline = std::chrono::steady_clock::now() + 1h});
          }) == 0);
  }
  SECTION("a sleep") {
    CHECK(allocated_by_turns(io, 1000, [] { return sleep_for(1us); }) == 0);
  }
  SECTION("a sleep that is over already") {
    CHECK(allocated_by_turns(io, 1000, [] { return sleep_until(time_point{}); }) == 0);
  }
}

TEST_CASE("sixty that contend allocate nothing", "[memory]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1000), .burst = 3, .priorities = 3, .ageing = 50ms}};
  bool stop = false;
  for (int i = 0; i < 60; ++i) {
    net::co_spawn(
        t.io,
        [&, i]() -> net::awaitable<void> {
          while (!stop) {
            const std::uint64_t tokens = i % 7 == 0 ? 3 : 1;
            co_await s.acquire({.priority = i % 3, .tokens = tokens, .deadline = t.time.now() + 10s});
          }
        },
        net::detached);
  }
  t.time.run_for(1s);
  const counted c;
  t.time.run_for(1s);
  s.set_rate(rate::per_second(500));
  t.time.run_for(1s);
  s.pause();
  t.time.run_for(1s);
  s.resume();
  t.time.run_for(1s);
  CHECK(c.so_far() == 0);
  CHECK(s.stats().granted > 2000);
  stop = true;
  t.time.run();
}

TEST_CASE("a callback allocates nothing once Asio's allocator is warm", "[memory]") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  SECTION("granted at once") {
    scheduler s{io, plenty()};
    CHECK(allocated_by_callbacks(io, 4000, [&](auto handler) { s.async_acquire({}, handler); }) == 0);
  }
  scheduler slow{io, {.rate = rate::per_second(100'000)}};
  SECTION("that waits") {
    CHECK(allocated_by_callbacks(io, 1000, [&](auto handler) { slow.async_acquire({}, handler); }) == 0);
  }
  SECTION("whose deadline passes") {
    slow.pause();
    CHECK(allocated_by_callbacks(io, 200, [&](auto handler) {
            slow.async_acquire({.deadline = std::chrono::steady_clock::now() + 100us}, handler);
          }) == 0);
  }
  SECTION("that is refused") {
    CHECK(allocated_by_callbacks(io, 1000,
                                 [&](auto handler) { slow.async_acquire({.deadline = time_point{}}, handler); }) == 0);
  }
}

TEST_CASE("a callback with an allocator of its own takes one block from it and nothing from the heap", "[memory]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1000), .queue_limit = 8, .on_overflow = overflow::evict_oldest}};
  auto blocks = std::make_unique<pool_of_blocks>();
  int ended = 0;
  int started = 0;
  std::error_code how;
  std::vector<std::unique_ptr<net::cancellation_signal>> signals;
  for (int i = 0; i < 8; ++i) signals.push_back(std::make_unique<net::cancellation_signal>());
  const auto start = [&](request r) {
    ++started;
    s.async_acquire(r, pooled_handler{pool_allocator<void>{*blocks}, &ended, &how});
  };
  const auto round = [&] {
    start({});                                 // granted later
    start({.deadline = t.time.now() + 20ms});  // too
    start({.deadline = t.time.now()});         // unreachable
    start({.priority = 1});                    // invalid
    for (int i = 0; i < 10; ++i) start({});    // some are evicted
    t.time.poll();
    s.pause();
    start({.deadline = t.time.now() + 12ms});  // times out
    t.time.run_for(13ms);
    s.resume();
    t.time.run_for(20ms);
  };
  round();
  const counted c;
  for (int i = 0; i < 100; ++i) round();
  CHECK(c.so_far() == 0);
  CHECK(ended == started);
  CHECK(blocks->out == 0);
  CHECK(blocks->takes >= started);
  const auto stats = s.stats();
  CHECK(stats.timed_out > 50);
  CHECK(stats.evicted > 100);
  CHECK(stats.granted > 500);
}

TEST_CASE("a callback that is cancelled allocates nothing", "[memory]") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  scheduler s{io, {.rate = rate::per_hour(1)}};
  net::cancellation_signal signal;
  CHECK(allocated_by_callbacks(io, 1000, [&](auto handler) {
          s.async_acquire({}, net::bind_cancellation_slot(signal.slot(), handler));
          net::post(io, [&signal] { signal.emit(net::cancellation_type::total); });
        }) == 0);
  CHECK(s.stats().cancelled == 1000);
}

TEST_CASE("a time limit for one Asio operation allocates nothing once the allocator is warm", "[memory]") {
  if (!blocks_are_cached) return;
  net::io_context io{1};
  net::steady_timer timer{io};
  CHECK(allocated_by_callbacks(io, 200, [&](auto handler) {
          timer.expires_after(10us);
          timer.async_wait(canigo::cancel_after(1h, handler));
        }) == 0);
}

TEST_CASE("a time limit for a coroutine allocates no more as time goes by", "[memory]") {
  net::io_context io{1};
  scheduler s{io, plenty()};
  const auto one = allocated_by_turns(io, 200, [&] { return with_timeout(s.acquire(), 1h); });
  const auto before = live.load();
  const auto ten = allocated_by_turns(io, 2000, [&] { return with_timeout(s.acquire(), 1h); });
  CHECK(ten <= 10 * one + 100);
  CHECK(one <= 100 * 12);       // the strand, and what co_spawn does
  CHECK(live <= before + 300);  // of 2000: what is kept for the next, such as the 193 mutexes of Asio's strands
}

TEST_CASE("a waiter needs no memory of the scheduler's", "[memory]") {  // M5: what waits lies in its caller's frame
  timeline t;
  scheduler s{t.io, {.rate = rate::per_hour(1)}};
  auto blocks = std::make_unique<pool_of_blocks>();
  int ended = 0;
  std::error_code how;
  s.async_acquire({}, pooled_handler{pool_allocator<void>{*blocks}, &ended, &how});
  t.time.poll();
  const counted c;
  for (int i = 0; i < 50; ++i) s.async_acquire({}, pooled_handler{pool_allocator<void>{*blocks}, &ended, &how});
  s.stop();
  t.time.poll();
  CHECK(c.so_far() == 0);
  CHECK(ended == 51);
}
