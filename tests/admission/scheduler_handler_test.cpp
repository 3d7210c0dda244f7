// What async_acquire does with every kind of completion token, and where and when it completes.

#include "canigo/scheduler.hpp"

#include "support/accounting_allocator.hpp"
#include "support/catch.hpp"
#include "support/timeline.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/thread_pool.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>
#include <asio/version.hpp>
#if ASIO_VERSION < 102300
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
#else
#include <asio/as_tuple.hpp>
#include <asio/deferred.hpp>
#endif

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

#if ASIO_VERSION < 102300
using net::experimental::as_tuple;
using net::experimental::deferred;
#else
using net::as_tuple;
using net::deferred;
#endif

scheduler_options five_per_second() { return {.rate = rate::per_second(5), .priorities = 2}; }

// Made of everything that a handler can carry: an executor, an allocator, a slot; and it can only be moved.
struct laden_handler {
  using executor_type = net::strand<net::io_context::executor_type>;
  using allocator_type = accounting_allocator<void>;
  using cancellation_slot_type = net::cancellation_slot;

  executor_type executor;
  allocator_type allocator;
  net::cancellation_slot slot;
  std::unique_ptr<std::function<void(std::error_code)>> call;

  executor_type get_executor() const noexcept { return executor; }
  allocator_type get_allocator() const noexcept { return allocator; }
  cancellation_slot_type get_cancellation_slot() const noexcept { return slot; }
  void operator()(std::error_code ec) { (*call)(ec); }
};

}  // namespace

TEST_CASE("a callback is called once, with the time of its token, never inside the call", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  s.async_acquire({}, [&](std::error_code ec) { t.note("a", ec); });
  s.async_acquire({}, [&](std::error_code ec) { t.note("b", ec); });
  s.async_acquire({.deadline = t.at(1ms)}, [&](std::error_code ec) { t.note("c", ec); });
  s.async_acquire({.priority = 5}, [&](std::error_code ec) { t.note("d", ec); });
  CHECK(t.log.empty());
  CHECK(t.poll() == events{"c unreachable 0s", "d invalid_priority 0s"});
  CHECK(t.run() == events{"a 200ms", "b 400ms"});
  t.time.run_for(1s);
  SECTION("also where the token is there") {
    bool inside = true;
    s.async_acquire({}, [&](std::error_code ec) {
      CHECK_FALSE(inside);
      t.note("e", ec);
    });
    inside = false;
    CHECK(t.log.empty());
    CHECK(t.poll() == events{"e 1400ms"});
  }
  SECTION("also inside a handler that runs on the context") {
    net::post(t.io, [&] {
      s.async_acquire({}, [&](std::error_code ec) { t.note("e", ec); });
      t.note("handler");
    });
    CHECK(t.poll() == events{"handler 1400ms", "e 1400ms"});
  }
  SECTION("also where it is stopped") {
    s.stop();
    s.async_acquire({}, [&](std::error_code ec) { t.note("e", ec); });
    CHECK(t.log.empty());
    CHECK(t.poll() == events{"e stopped 1400ms"});
  }
}

TEST_CASE("a future", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  auto good = s.async_acquire({}, net::use_future);
  // By itself use_future completes on a thread of Asio's. The thread sanitizer does not see how libstdc++ counts the
  // owners of an exception, so those that fail complete here.
  const auto here = [&t] { return net::bind_executor(t.io, net::use_future); };
  auto bad = s.async_acquire({.priority = 7}, here());
  auto late = s.async_acquire({}, here());
  CHECK(good.wait_for(0s) == std::future_status::timeout);
  t.time.run_for(200ms);
  good.get();
  try {
    bad.get();
    FAIL("no exception");
  } catch (const std::system_error& e) {
    CHECK(e.code() == errc::invalid_priority);
  }
  s.stop();
  t.time.run();
  CHECK_THROWS_AS(late.get(), std::system_error);
}

TEST_CASE("a future that another thread waits for", "[scheduler]") {
  net::io_context io;
  scheduler s{io, {.rate = rate{1, 1us}, .burst = 8}};
  auto work = net::make_work_guard(io);
  std::thread runner{[&] { io.run(); }};
  for (int i = 0; i < 100; ++i) s.async_acquire({}, net::use_future).get();
  work.reset();
  runner.join();
  CHECK(s.stats().granted == 100);
}

TEST_CASE("awaited with use_awaitable, as_tuple and deferred", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  net::co_spawn(
      t.io,
      [](timeline& of, scheduler& from) -> net::awaitable<void> {
        co_await from.async_acquire({}, net::use_awaitable);
        of.note("use_awaitable");
        std::error_code ec;
        std::tie(ec) = co_await from.async_acquire({}, as_tuple(net::use_awaitable));
        of.note("as_tuple", ec);
        std::tie(ec) = co_await from.async_acquire({.priority = -3}, as_tuple(net::use_awaitable));
        of.note("as_tuple", ec);
        try {
          co_await from.async_acquire({.tokens = 2}, net::use_awaitable);
        } catch (const std::system_error& e) {
          of.note("use_awaitable", e.code());
        }
        auto operation = from.async_acquire({}, deferred);
        of.note("deferred is made");
        co_await std::move(operation)(net::use_awaitable);
        of.note("deferred");
      }(t, s),
      net::detached);
  CHECK(t.run() == events{"use_awaitable 200ms", "as_tuple 400ms", "as_tuple invalid_priority 400ms",
                          "use_awaitable too_large 400ms", "deferred is made 400ms", "deferred 600ms"});
}

TEST_CASE("a deferred acquire asks for nothing before it is started", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  auto operation = s.async_acquire({.priority = 1}, deferred);
  CHECK(s.stats().waiting == 0);
  t.time.run_for(1s);
  std::move(operation)([&](std::error_code ec) { t.note("a", ec); });
  CHECK(t.run() == events{"a 1s"});
}

TEST_CASE("a detached acquire takes its token all the same", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  s.async_acquire({}, net::detached);
  t.time.run();
  CHECK(s.stats().granted == 1);
}

TEST_CASE("a handler that can only be moved", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  auto what = std::make_unique<std::string>("moved");
  s.async_acquire({}, [&t, what = std::move(what)](std::error_code ec) { t.note(*what, ec); });
  CHECK(t.run() == events{"moved 200ms"});
}

TEST_CASE("a handler is called as an rvalue and may free itself", "[scheduler]") {
  struct once {
    std::unique_ptr<int> value = std::make_unique<int>(7);
    std::shared_ptr<int> out;
    void operator()(std::error_code) && { *out = *std::move(value); }
  };
  timeline t;
  scheduler s{t.io, five_per_second()};
  const auto out = std::make_shared<int>(0);
  s.async_acquire({}, once{.out = out});
  t.time.run();
  CHECK(*out == 7);
  CHECK(out.use_count() == 1);
}

TEST_CASE("the operation is made by the handler's allocator and given back before the call", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  account books;
  int calls = 0;
  const auto handler = [&](std::error_code) {
    CHECK(books.balance == 0);
    ++calls;
  };
  struct allocating {
    using allocator_type = accounting_allocator<void>;
    allocator_type allocator;
    std::function<void(std::error_code)> call;
    allocator_type get_allocator() const noexcept { return allocator; }
    void operator()(std::error_code ec) { call(ec); }
  };
  s.async_acquire({}, allocating{accounting_allocator<void>{books}, handler});
  CHECK(books.allocations == 1);
  CHECK(books.balance > 0);
  t.time.run();
  CHECK(calls == 1);
  s.async_acquire({.deadline = t.at(1h)}, allocating{accounting_allocator<void>{books}, handler});
  t.time.run();
  s.async_acquire({.priority = 9}, allocating{accounting_allocator<void>{books}, handler});
  t.time.run();
  CHECK(calls == 3);
  CHECK(books.allocations == 3);
  s.async_acquire({}, allocating{accounting_allocator<void>{books}, handler});
  s.stop();
  t.time.run();
  CHECK(calls == 4);
  CHECK(books.balance == 0);
}

TEST_CASE("an allocator that has nothing left makes the handler end with an error", "[scheduler]") {
  struct allocating {
    using allocator_type = accounting_allocator<void>;
    allocator_type allocator;
    timeline* t;
    allocator_type get_allocator() const noexcept { return allocator; }
    void operator()(std::error_code ec) { t->note("a", ec); }
  };
  account empty{.refuses = true};
  timeline t;
  scheduler s{t.io, five_per_second()};
  s.async_acquire({}, allocating{accounting_allocator<void>{empty}, &t});
  CHECK(t.log.empty());
  CHECK(t.poll() == events{"a not_enough_memory 0s"});
  CHECK(s.stats().waiting == 0);
  t.time.run_for(1s);
  CHECK(s.try_acquire());
}

TEST_CASE("a handler with a strand is called on it", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  const auto strand = net::make_strand(t.io);
  int calls = 0;
  const auto handler = [&](std::error_code) {
    CHECK(strand.running_in_this_thread());
    ++calls;
  };
  s.async_acquire({}, net::bind_executor(strand, handler));
  s.async_acquire({.deadline = t.at(1h)}, net::bind_executor(net::any_io_executor{strand}, handler));
  s.async_acquire({.priority = 8}, net::bind_executor(strand, handler));
  t.time.run();
  CHECK(calls == 3);
  s.async_acquire({}, net::bind_executor(strand, handler));
  s.stop();
  t.time.run();
  CHECK(calls == 4);
}

TEST_CASE("a scheduler on a strand calls its handlers there", "[scheduler]") {
  timeline t;
  const auto strand = net::make_strand(t.io);
  scheduler s{net::any_io_executor{strand}, five_per_second()};
  CHECK(s.get_executor() == net::any_io_executor{strand});
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    s.async_acquire({}, [&](std::error_code) {
      CHECK(strand.running_in_this_thread());
      ++calls;
    });
  }
  net::co_spawn(
      strand,
      [](scheduler& from, const auto& on, int& n) -> net::awaitable<void> {
        co_await from.acquire();
        CHECK(on.running_in_this_thread());
        ++n;
      }(s, strand, calls),
      net::detached);
  t.time.run();
  CHECK(calls == 4);
}

TEST_CASE("a waiter of another io_context is called there, and keeps it running", "[scheduler]") {
  timeline t;
  net::io_context elsewhere;
  scheduler s{t.io, five_per_second()};
  bool called = false;
  s.async_acquire({}, net::bind_executor(elsewhere, [&](std::error_code ec) {
                    CHECK_FALSE(ec);
                    CHECK(elsewhere.get_executor().running_in_this_thread());
                    CHECK_FALSE(t.io.get_executor().running_in_this_thread());
                    called = true;
                  }));
  elsewhere.poll();
  CHECK_FALSE(elsewhere.stopped());
  t.time.run();
  CHECK_FALSE(called);
  elsewhere.run();
  CHECK(called);
}

TEST_CASE("a coroutine of another io_context", "[scheduler]") {
  timeline t;
  net::io_context elsewhere;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 2, .initial_tokens = 1}};
  int steps = 0;
  net::co_spawn(
      elsewhere,
      [](scheduler& from, net::io_context& on, int& n) -> net::awaitable<void> {
        co_await from.acquire();
        ++n;
        co_await from.acquire({.deadline = time_point{1h}});
        CHECK(on.get_executor().running_in_this_thread());
        ++n;
      }(s, elsewhere, steps),
      net::detached);
  elsewhere.poll();
  CHECK(steps == 1);
  t.time.run();
  CHECK(steps == 1);
  elsewhere.run();
  CHECK(steps == 2);
}

TEST_CASE("a pending callback keeps the scheduler's loop running, and nothing else does", "[scheduler]") {
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1)}};
  s.pause();
  net::cancellation_signal signal;
  bool called = false;
  s.async_acquire({}, net::bind_cancellation_slot(signal.slot(), [&](std::error_code) { called = true; }));
  io.poll();
  CHECK_FALSE(io.stopped());
  signal.emit(net::cancellation_type::terminal);
  CHECK_FALSE(called);
  io.run();
  CHECK(called);
}

TEST_CASE("everything a handler can carry at once", "[scheduler]") {
  timeline t;
  scheduler s{t.io, five_per_second()};
  const auto strand = net::make_strand(t.io);
  account books;
  net::cancellation_signal signal;
  const auto make = [&](const char* name) {
    return laden_handler{strand, accounting_allocator<void>{books}, signal.slot(),
                         std::make_unique<std::function<void(std::error_code)>>([&, name](std::error_code ec) {
                           CHECK(strand.running_in_this_thread());
                           t.note(name, ec);
                         })};
  };
  s.async_acquire({}, make("a"));
  CHECK(t.run() == events{"a 200ms"});
  s.async_acquire({.deadline = t.at(1h)}, make("b"));
  t.time.run_for(100ms);
  net::post(strand, [&] { signal.emit(net::cancellation_type::total); });
  CHECK(t.run() == events{"b cancelled 300ms"});
  CHECK(books.balance == 0);
  CHECK(books.allocations == 2);
}

TEST_CASE("completions come in the order of the grants", "[scheduler]") {
  timeline t;
  constexpr int many = 1000;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = many}};
  std::vector<int> order;
  for (int i = 0; i < many; ++i) s.async_acquire({}, [&order, i](std::error_code) { order.push_back(i); });
  s.refund(many);
  t.time.poll();
  REQUIRE(order.size() == many);
  CHECK(std::is_sorted(order.begin(), order.end()));
}

TEST_CASE("a handler that throws takes nobody with it", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 5}};
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    s.async_acquire({}, [&t, name](std::error_code ec) {
      t.note(name, ec);
      if (*name == 'a' || *name == 'c') throw std::runtime_error{name};
    });
  }
  s.refund(5);
  CHECK_THROWS_AS(t.time.poll(), std::runtime_error);
  CHECK_THROWS_AS(t.time.poll(), std::runtime_error);
  t.time.poll();
  CHECK(t.take_log() == events{"a 0s", "b 0s", "c 0s", "d 0s", "e 0s"});
  CHECK(t.idle());
}

TEST_CASE("handlers may use the scheduler that calls them", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3}};
  s.async_acquire({}, [&](std::error_code ec) {
    t.note("a", ec);
    s.async_acquire({}, [&](std::error_code inner) {
      t.note("b", inner);
      s.refund(1);
      s.async_acquire({}, [&](std::error_code last) {
        t.note("c", last);
        s.async_acquire({}, [&](std::error_code never_granted) { t.note("d", never_granted); });
        s.stop();
      });
    });
  });
  CHECK(t.run() == events{"a 200ms", "b 400ms", "c 400ms", "d stopped 400ms"});
}

TEST_CASE("several threads run the loop of one scheduler", "[scheduler]") {
  constexpr int coroutines = 16;
  constexpr int rounds = 250;
  net::io_context io;
  scheduler s{io, {.rate = rate{1, 1us}, .burst = 4, .priorities = 3}};
  std::atomic<int> granted = 0;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  const auto work = [](scheduler& from, int priority, auto& n, auto& m, auto& seen) -> net::awaitable<void> {
    for (int i = 0; i < rounds; ++i) {
      co_await from.acquire(priority);
      ++n;
    }
    const std::lock_guard lock{m};
    seen.insert(std::this_thread::get_id());
  };
  for (int i = 0; i < coroutines; ++i) net::co_spawn(io, work(s, i % 3, granted, mutex, threads), net::detached);
  for (int i = 0; i < rounds; ++i) s.async_acquire({}, [&](std::error_code) { ++granted; });
  std::vector<std::thread> pool;
  for (int i = 0; i < 4; ++i) pool.emplace_back([&] { io.run(); });
  for (auto& thread : pool) thread.join();
  CHECK(granted == (coroutines + 1) * rounds);
  const auto end = s.stats();
  CHECK(end.granted == (coroutines + 1) * rounds);
  CHECK(end.waiting == 0);
}

TEST_CASE("a scheduler on a thread pool", "[scheduler]") {
  std::atomic<int> granted = 0;
  net::thread_pool pool{3};
  scheduler s{pool, {.rate = rate{1, 1us}, .burst = 4}};
  const auto work = [](scheduler& from, std::atomic<int>& n) -> net::awaitable<void> {
    for (int i = 0; i < 100; ++i) {
      co_await from.acquire();
      ++n;
    }
  };
  for (int i = 0; i < 8; ++i) net::co_spawn(pool, work(s, granted), net::detached);
  for (int i = 0; i < 100; ++i) s.async_acquire({}, [&](std::error_code) { ++granted; });
  pool.join();
  CHECK(granted == 900);
}

TEST_CASE("a handler that takes its time holds up nobody while other threads are free", "[scheduler]") {
  // Each handler lets the next one in and waits for it: with fewer threads than handlers, or with a
  // delivery that waits for the handler before it, this would never end.
  constexpr int depth = 6;
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .burst = depth}};
  std::vector<std::promise<void>> called(depth + 1);
  std::atomic<int> ended = 0;
  for (int i = 0; i < depth; ++i) {
    s.async_acquire({}, [&, i](std::error_code) {
      called[static_cast<std::size_t>(i)].set_value();
      s.refund(1);
      called[static_cast<std::size_t>(i) + 1].get_future().wait();
      ++ended;
    });
  }
  called[depth].set_value();
  s.refund(1);
  std::vector<std::thread> pool;
  for (int i = 0; i < depth; ++i) pool.emplace_back([&] { io.run(); });
  for (auto& thread : pool) thread.join();
  CHECK(ended == depth);
}

TEST_CASE("one slow handler of a batch does not hold up the rest of it", "[scheduler]") {
  // It waits for the rest: if it held them up, this would never end.
  constexpr int many = 50;
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .burst = many}};
  std::promise<void> rest;
  std::atomic<int> called = 0;
  bool ended = false;
  s.async_acquire({}, [&](std::error_code) {
    rest.get_future().wait();
    ended = true;
  });
  for (int i = 1; i < many; ++i) {
    s.async_acquire({}, [&](std::error_code) {
      if (++called == many - 1) rest.set_value();
    });
  }
  s.refund(many);
  std::thread other{[&] { io.run(); }};
  io.run();
  other.join();
  CHECK(ended);
}
