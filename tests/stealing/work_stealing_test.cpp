#include "canigo/work_stealing.hpp"

#include "canigo/semaphore.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"

#include "support/accounting_allocator.hpp"
#include "support/catch.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/execution.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/address_v4.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/post.hpp>
#include <asio/prefer.hpp>
#include <asio/read.hpp>
#include <asio/require.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
namespace net = canigo::net;
namespace execution = canigo::net::execution;
using canigo::work_stealing;

namespace work_stealing_run {

using executor = work_stealing::executor_type;

static_assert(std::is_nothrow_copy_constructible_v<executor> && std::is_nothrow_move_constructible_v<executor>);
static_assert(execution::is_executor<executor>::value);
static_assert(net::can_require<executor, execution::blocking_t::never_t>::value);
static_assert(net::can_require<executor, execution::blocking_t::possibly_t>::value);
static_assert(net::can_require<executor, execution::relationship_t::fork_t>::value);
static_assert(net::can_require<executor, execution::relationship_t::continuation_t>::value);
static_assert(net::can_require<executor, execution::outstanding_work_t::tracked_t>::value);
static_assert(net::can_require<executor, execution::outstanding_work_t::untracked_t>::value);
static_assert(net::can_require<executor, execution::allocator_t<std::allocator<int>>>::value);
static_assert(net::can_query<executor, execution::mapping_t>::value);
static_assert(net::can_query<executor, execution::context_t>::value);

/// An io_context with so many threads in run() until the end.
struct running_threads {
  running_threads(net::io_context& io, int n) : work{net::make_work_guard(io)} {
    for (int i = 0; i < n; ++i) all.emplace_back([&io] { io.run(); });
  }
  ~running_threads() {
    work.reset();
    for (auto& t : all) t.join();
  }
  net::executor_work_guard<net::io_context::executor_type> work;
  std::vector<std::thread> all;
};

/// Notes whether it was called, and that it was destroyed.
struct witness {
  witness(int& c, int& d) : calls{&c}, destroyed{&d} {}
  witness(witness&& other) noexcept : calls{other.calls}, destroyed{std::exchange(other.destroyed, nullptr)} {}
  ~witness() {
    if (destroyed != nullptr) ++*destroyed;
  }
  void operator()() const { ++*calls; }
  int* calls;
  int* destroyed;
};

/// Spawns two of itself, so that the work spreads, until `depth` is 0.
struct tree {
  executor ex;
  std::atomic<int>* leaves;
  int depth;
  void operator()() const {
    if (depth == 0) {
      leaves->fetch_add(1);
      return;
    }
    for (int i = 0; i < 2; ++i) net::post(ex, tree{ex, leaves, depth - 1});
  }
};

net::awaitable<void> yields(int n, std::atomic<int>& done) {
  for (int i = 0; i < n; ++i) co_await net::post(net::use_awaitable);
  done.fetch_add(1);
}

}  // namespace work_stealing_run

using namespace work_stealing_run;

TEST_CASE("an executor answers for each property as it was required", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  CHECK(&net::query(ex, execution::context) == &io);
  CHECK(net::query(ex, execution::mapping) == execution::mapping.thread);
  CHECK(net::query(ex, execution::blocking) == execution::blocking.possibly);
  CHECK(net::query(ex, execution::relationship) == execution::relationship.fork);
  CHECK(net::query(ex, execution::outstanding_work) == execution::outstanding_work.untracked);
  const auto never = net::require(ex, execution::blocking.never);
  CHECK(net::query(never, execution::blocking) == execution::blocking.never);
  CHECK(net::query(net::require(never, execution::blocking.possibly), execution::blocking) ==
        execution::blocking.possibly);
  const auto next = net::require(never, execution::relationship.continuation);
  CHECK(net::query(next, execution::relationship) == execution::relationship.continuation);
  CHECK(net::query(next, execution::blocking) == execution::blocking.never);
  const auto tracked = net::require(next, execution::outstanding_work.tracked);
  CHECK(net::query(tracked, execution::outstanding_work) == execution::outstanding_work.tracked);
  CHECK(net::query(tracked, execution::relationship) == execution::relationship.continuation);
  CHECK(net::require(net::require(tracked, execution::outstanding_work.untracked), execution::relationship.fork) ==
        never);
}

TEST_CASE("executors are equal if they are of one context and have the same properties", "[work_stealing]") {
  net::io_context io;
  net::io_context other;
  const auto ex = work_stealing{io}.get_executor();
  CHECK(ex == work_stealing{io}.get_executor());
  CHECK(ex != work_stealing{other}.get_executor());
  CHECK(ex != net::require(ex, execution::blocking.never));
  CHECK(ex != net::require(ex, execution::relationship.continuation));
  const net::any_io_executor any = ex;
  CHECK(any == net::any_io_executor{work_stealing{io}.get_executor()});
  CHECK(any != net::any_io_executor{io.get_executor()});
  CHECK(*any.target<executor>() == ex);
}

TEST_CASE("with one thread the order is that of the posts", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::vector<int> order;
  int next = 0;
  std::function<void(int)> post_another = [&](int left) {
    const int number = next++;
    net::post(ex, [&, number, left] {
      order.push_back(number);
      if (left > 0) post_another(left - 1);
    });
  };
  const auto post_some = [&](int some) {
    for (int i = 0; i < some; ++i) post_another(5);
  };
  SECTION("from outside") { post_some(1000); }
  SECTION("from a function") {
    net::post(ex, [&] { post_some(1000); });
  }
  SECTION("from handlers of the io_context between the turns") {
    for (int i = 0; i < 20; ++i) {
      net::post(io, [&] {
        post_some(100);
        net::post(io, [&] { post_some(10); });
      });
    }
  }
  io.run();
  REQUIRE(order.size() == static_cast<std::size_t>(next));
  CHECK(order.size() >= 6000);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("dispatch calls at once on a thread that runs the io_context, and post does not", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::vector<int> order;
  const auto dispatch_and_post = [&] {
    order.push_back(1);
    net::post(ex, [&] { order.push_back(4); });
    net::dispatch(ex, [&] { order.push_back(2); });
    order.push_back(3);
  };
  SECTION("in a function of this executor") { net::post(ex, dispatch_and_post); }
  SECTION("in a handler of the io_context") { net::post(io, dispatch_and_post); }
  net::dispatch(ex, [&] { order.push_back(0); });
  CHECK(order.empty());
  CHECK_FALSE(ex.running_in_this_thread());
  io.run();
  std::erase(order, 0);
  CHECK(order == std::vector{1, 2, 3, 4});
}

TEST_CASE("an exception leaves run(), and what else is posted stays", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  int calls = 0;
  for (int i = 0; i < 1000; ++i) {
    net::post(ex, [&, i] {
      ++calls;
      if (i % 100 == 50) throw std::runtime_error{"mine"};
    });
  }
  int thrown = 0;
  while (!io.stopped()) {
    try {
      io.run();
    } catch (const std::runtime_error&) {
      ++thrown;
    }
  }
  CHECK(thrown == 10);
  CHECK(calls == 1000);
}

TEST_CASE("an exception that leaves run() on one thread wakes another for the rest", "[work_stealing][realtime]") {
  for (int round = 0; round < 50; ++round) {
    net::io_context io;
    const auto ex = work_stealing{io}.get_executor();
    std::atomic<int> calls{0};
    std::atomic<int> thrown{0};
    std::atomic<bool> all_posted{false};
    auto work = net::make_work_guard(io);
    std::vector<std::thread> both;
    for (int t = 0; t < 2; ++t) {
      both.emplace_back([&] {
        try {
          io.run();
        } catch (const std::runtime_error&) {
          thrown.fetch_add(1);  // and does not come back
        }
      });
    }
    net::post(ex, [&] {
      for (int i = 0; i < 600; ++i) net::post(ex, [&] { calls.fetch_add(1); });
      all_posted = true;
      throw std::runtime_error{"mine"};
    });
    while (!all_posted || calls < 600) std::this_thread::yield();
    work.reset();
    for (auto& t : both) t.join();
    REQUIRE(thrown == 1);
  }
}

TEST_CASE("an exception of a function that is called at once leaves run(), not the caller", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  bool went_on = false;
  net::post(ex, [&] {
    net::dispatch(ex, [] { throw std::runtime_error{"mine"}; });
    went_on = true;
  });
  CHECK_THROWS_WITH(io.run(), "mine");
  CHECK(went_on);
  CHECK_NOTHROW(io.run());
}

TEST_CASE("stop() ends a turn within 16 functions, and restart() goes on with the next", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) {
    net::post(ex, [&, i] {
      order.push_back(i);
      if (i == 100) io.stop();
    });
  }
  io.run();
  CHECK(order.size() > 100);
  CHECK(order.size() <= 100 + 16);
  io.restart();
  io.run();
  CHECK(order.size() == 1000);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("run_one() and poll_one() run at most a turn, and poll() all that is ready", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  int calls = 0;
  for (int i = 0; i < 1000; ++i) net::post(ex, [&] { ++calls; });
  CHECK(io.run_one() == 1);
  CHECK(calls == 256);
  // A handler of it may find nothing to do.
  for (int i = 0; i < 2 && calls == 256; ++i) io.poll_one();
  CHECK(calls == 512);
  io.poll();
  CHECK(calls == 1000);
  CHECK(io.stopped());
}

TEST_CASE("run_for() returns after its time, though there is always work", "[work_stealing][realtime]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  int calls = 0;
  std::function<void()> again = [&] {
    ++calls;
    net::post(ex, [&] { again(); });
  };
  for (int i = 0; i < 300; ++i) again();
  io.run_for(2ms);
  const int before = calls;
  CHECK(before > 300);
  io.run_for(2ms);
  CHECK(calls > before);
}

TEST_CASE("what is left when the io_context goes is destroyed, and not called", "[work_stealing]") {
  int calls = 0;
  int destroyed = 0;
  int late = 0;
  {
    net::io_context io;
    const auto ex = work_stealing{io}.get_executor();
    for (int i = 0; i < 1000; ++i) net::post(ex, witness{calls, destroyed});
    // In the ring, in the list behind it, and from outside.
    net::post(ex, [&] { io.stop(); });
    io.run();
    for (int i = 0; i < 1000; ++i) net::post(ex, witness{calls, destroyed});
    // One that posts another when it is destroyed.
    struct poster {
      poster(executor e, int& n) : ex{e}, destroyed{&n} {}
      poster(poster&& other) noexcept : ex{other.ex}, destroyed{std::exchange(other.destroyed, nullptr)} {}
      ~poster() {
        if (destroyed == nullptr) return;
        int& n = *destroyed;
        ++n;
        if (n < 100) net::post(ex, poster{ex, n});
      }
      void operator()() const {}
      executor ex;
      int* destroyed;
    };
    net::post(ex, poster{ex, late});
  }
  CHECK(destroyed == 2000);
  CHECK(calls >= 1000);
  CHECK(calls < 2000);
  CHECK(late == 100);
}

TEST_CASE("a coroutine that is left when the io_context goes is destroyed", "[work_stealing]") {
  const auto witness = std::make_shared<int>(0);
  {
    net::io_context io;
    work_stealing pool{io};
    canigo::semaphore slots{pool, {.permits = 1}};
    const auto wait = [](canigo::semaphore& s, std::shared_ptr<int>) -> net::awaitable<void> {
      const auto held = co_await s.acquire();
      for (;;) co_await net::post(net::use_awaitable);
    };
    for (int i = 0; i < 10; ++i) net::co_spawn(pool.get_executor(), wait(slots, witness), net::detached);
    io.run_one();
    CHECK(witness.use_count() > 1);
  }
  CHECK(witness.use_count() == 1);
}

TEST_CASE("an executor that tracks work keeps run() from returning", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::optional work{net::make_work_guard(ex)};
  CHECK(io.poll() == 0);
  CHECK_FALSE(io.stopped());
  auto copy = std::make_unique<decltype(net::require(ex, execution::outstanding_work.tracked))>(
      net::require(ex, execution::outstanding_work.tracked));
  work.reset();
  CHECK(io.poll() == 0);
  CHECK_FALSE(io.stopped());
  copy.reset();
  io.poll();
  CHECK(io.stopped());
}

TEST_CASE("what is posted lies in memory of the allocator that is required", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  account a;
  net::require(ex, execution::blocking.never, execution::allocator(accounting_allocator<void>{a})).execute([] {});
  CHECK(a.allocations == 1);
  io.run();
  CHECK(a.balance == 0);
}

TEST_CASE("strands, timers, sockets and groups of operations run on it", "[work_stealing]") {
  net::io_context io;
  work_stealing pool{io};
  const auto run = [&]() -> net::awaitable<void> {
    using namespace net::experimental::awaitable_operators;
    const net::any_io_executor ex = co_await net::this_coro::executor;
    // A strand keeps its order.
    auto strand = net::make_strand(pool.get_executor());
    std::vector<int> order;
    for (int i = 0; i < 300; ++i) net::post(strand, [&order, i] { order.push_back(i); });
    co_await net::post(strand, net::use_awaitable);
    CHECK(order.size() == 300);
    CHECK(std::is_sorted(order.begin(), order.end()));
    // Sockets.
    net::ip::tcp::acceptor acceptor{ex, {net::ip::address_v4::loopback(), 0}};
    net::ip::tcp::socket client{ex};
    net::ip::tcp::socket server{ex};
    co_await (acceptor.async_accept(server, net::use_awaitable) &&
              client.async_connect(acceptor.local_endpoint(), net::use_awaitable));
    std::array<char, 5> bytes{};
    co_await (net::async_write(client, net::buffer("hello", 5), net::use_awaitable) &&
              net::async_read(server, net::buffer(bytes), net::use_awaitable));
    CHECK(std::string(bytes.data(), bytes.size()) == "hello");
    // Timers, of which the one that is due first cancels the other.
    net::steady_timer soon{ex, 1ms};
    net::steady_timer late{ex, 1h};
    const auto first = co_await (soon.async_wait(net::use_awaitable) || late.async_wait(net::use_awaitable));
    CHECK(first.index() == 0);
  };
  bool has_ended = false;
  net::co_spawn(pool.get_executor(), run(), [&](const std::exception_ptr& e) {
    if (e) std::rethrow_exception(e);
    has_ended = true;
  });
  SECTION("with one thread") { io.run(); }
  SECTION("with two threads") {
    std::thread other{[&] { io.run(); }};
    io.run();
    other.join();
  }
  CHECK(has_ended);
}

TEST_CASE("a timer that is due is served within two turns, though all rings are full", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  int calls = 0;
  bool is_over = false;
  std::function<void()> again = [&] {
    ++calls;
    if (!is_over) net::post(ex, [&] { again(); });
  };
  for (int i = 0; i < 1000; ++i) again();
  io.poll_one();
  net::steady_timer due{ex, canigo::net::steady_timer::duration::zero()};
  const int before = calls;
  due.async_wait([&](std::error_code) { is_over = true; });
  while (!is_over) io.run_one();
  CHECK(calls - before <= 2 * 256);
  io.run();
}

TEST_CASE("hours pass in virtual time", "[work_stealing]") {
  net::io_context io;
  canigo::testing::virtual_time time{io};
  work_stealing pool{io};
  canigo::semaphore slots{pool, {.permits = 2}};
  int ended = 0;
  const auto hold = [&]() -> net::awaitable<void> {
    const auto held = co_await slots.acquire();
    co_await canigo::sleep_for(1h);
    ++ended;
  };
  for (int i = 0; i < 10; ++i) net::co_spawn(pool.get_executor(), hold(), net::detached);
  const auto start = time.now();
  time.run();
  CHECK(ended == 10);
  CHECK(time.now() - start == 5h);
}

TEST_CASE("a function that polls the io_context from within runs what it has posted", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  bool was_called = false;
  int rest = 0;
  net::post(ex, [&] {
    net::post(ex, [&] { was_called = true; });
    for (int i = 0; i < 600; ++i) net::post(ex, [&] { ++rest; });
    while (!was_called) io.poll_one();
  });
  io.run();
  CHECK(was_called);
  CHECK(rest == 600);
}

TEST_CASE("after a fork both processes call what was posted before it", "[work_stealing]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  int calls = 0;
  for (int i = 0; i < 600; ++i) net::post(ex, [&] { ++calls; });
  io.run_one();  // some have been called, and a turn is posted
  io.notify_fork(net::io_context::fork_prepare);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  io.notify_fork(child == 0 ? net::io_context::fork_child : net::io_context::fork_parent);
  io.run();
  if (child == 0) ::_exit(calls == 600 ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(calls == 600);
}

TEST_CASE("a function may wait for one that it has posted, if there is another thread", "[work_stealing][realtime]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  std::atomic<int> ended{0};
  {
    const running_threads two{io, 2};
    for (int round = 0; round < 500; ++round) {
      const int before = ended;
      std::atomic<bool> first{false};
      std::atomic<bool> second{false};
      net::post(ex, [&] {
        net::post(ex, [&] { first = true; });
        net::post(ex, [&] { second = true; });
        while (!first || !second) std::this_thread::yield();
        ++ended;
      });
      while (ended == before) std::this_thread::yield();
    }
  }
  CHECK(ended == 500);
}

TEST_CASE("each function is called once while threads come and go", "[work_stealing][realtime]") {
  net::io_context io;
  const auto ex = work_stealing{io}.get_executor();
  constexpr int depth = 8;
  constexpr int trees = 60;
  std::atomic<int> leaves{0};
  std::atomic<int> yielded{0};
  std::atomic<bool> is_over{false};
  auto work = net::make_work_guard(io);
  std::vector<std::thread> all;
  // One stays, one runs turns, one comes for a moment, one polls.
  all.emplace_back([&] { io.run(); });
  all.emplace_back([&] {
    while (!is_over) io.run_one_for(1ms);
  });
  all.emplace_back([&] {
    while (!is_over) std::thread{[&] { io.run_for(std::chrono::microseconds{200}); }}.join();
  });
  all.emplace_back([&] {
    while (!is_over) {
      io.poll();
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < trees; ++i) {
    net::post(ex, tree{ex, &leaves, depth});
    net::co_spawn(ex, yields(200, yielded), net::detached);
  }
  while (leaves < trees << depth || yielded < trees) std::this_thread::yield();
  is_over = true;
  work.reset();
  for (auto& t : all) t.join();
  CHECK(leaves == trees << depth);
  CHECK(yielded == trees);
}

TEST_CASE("permits pass between coroutines of several threads", "[work_stealing][realtime]") {
  net::io_context io;
  work_stealing pool{io};
  canigo::semaphore slots{pool, {.permits = 3}};
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<int> ended{0};
  const auto work = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 200; ++i) {
      const auto held = co_await slots.acquire();
      const int now = ++inside;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      co_await net::post(net::use_awaitable);
      --inside;
    }
    ++ended;
  };
  for (int i = 0; i < 30; ++i) net::co_spawn(pool.get_executor(), work(), net::detached);
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) others.emplace_back([&] { io.run(); });
  io.run();
  for (auto& t : others) t.join();
  CHECK(ended == 30);
  CHECK(most <= 3);
}
