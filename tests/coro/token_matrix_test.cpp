// Every operation that takes a completion token, with every token of Asio that a user would write: it compiles, it ends
// as the token says, and an operation that was cancelled has consumed nothing.

#include "canigo/cancel_after.hpp"
#include "canigo/gate.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/strand_pool.hpp"
#include "canigo/wait_group.hpp"

#include "support/catch.hpp"
#include "support/outcome.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/compose.hpp>
#include <asio/detached.hpp>
#include <asio/experimental/parallel_group.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/system_executor.hpp>
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
#if ASIO_VERSION >= 103000
#include <asio/cancel_after.hpp>
#include <asio/experimental/co_composed.hpp>
#endif
#if ASIO_VERSION >= 103800
#include <asio/inline_executor.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
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

std::error_code code_of(std::error_code e) { return e; }
using ::code_of;  // of an exception

bool is_cancelled(std::error_code e) { return e == net::error::operation_aborted; }

// A handler of any signature, which notes how it was ended.
struct note {
  std::optional<std::error_code>* end;
  template <class First, class... Rest>
  void operator()(First first, Rest&&...) const {
    REQUIRE(!*end);
    *end = code_of(first);
  }
};

// The operations. Each can't complete until let_go(). is_unspent(): nothing was taken, and nothing waits any more.

struct scheduler_acquire {
  using signature = void(std::error_code);
  static constexpr bool has_code = true;
  explicit scheduler_acquire(net::io_context& io) : s{io, {.rate = rate::per_second(1), .burst = 1}} { s.pause(); }
  template <class Token>
  auto operator()(Token&& token) {
    return s.async_acquire({}, std::forward<Token>(token));
  }
  void let_go() { s.resume(); }
  bool is_unspent() { return s.stats().waiting == 0 && s.stats().granted == 0; }
  scheduler s;
};

template <class Limit>
struct permit_acquire {
  using signature = void(std::error_code, permit);
  static constexpr bool has_code = true;
  permit_acquire(net::io_context& io) : s{make(io)}, held{*s.try_acquire()} {}
  static Limit make(net::io_context& io) {
    if constexpr (std::is_same_v<Limit, semaphore>) {
      return Limit{io, {.permits = 1}};
    } else {
      return Limit{io, {.concurrency = 1}};
    }
  }
  template <class Token>
  auto operator()(Token&& token) {
    return s.async_acquire({}, std::forward<Token>(token));
  }
  void let_go() { held.release(); }
  bool is_unspent() { return s.stats().waiting == 0 && (held.release(), s.try_acquire().has_value()); }
  Limit s;
  permit held;
};
using semaphore_acquire = permit_acquire<semaphore>;
using limiter_acquire = permit_acquire<limiter>;

struct close_gate {
  using signature = void(std::error_code);
  static constexpr bool has_code = true;
  explicit close_gate(net::io_context& io) : g{io}, inside{g.enter()} {}
  template <class Token>
  auto operator()(Token&& token) {
    return g.async_close(std::forward<Token>(token));
  }
  void let_go() { inside.release(); }
  bool is_unspent() const { return g.count() == 1; }
  gate g;
  permit inside;
};

struct wait_for_group {
  using signature = void(std::error_code);
  static constexpr bool has_code = true;
  explicit wait_for_group(net::io_context& io) : g{io} { g.add(); }
  template <class Token>
  auto operator()(Token&& token) {
    return g.async_wait(std::forward<Token>(token));
  }
  void let_go() { g.done(); }
  bool is_unspent() { return g.count() == 1; }
  wait_group g;
};

struct run_in_pool {
  using signature = void(std::exception_ptr, int);
  static constexpr bool has_code = false;
  explicit run_in_pool(net::io_context& io)
      : open{io, {.permits = 1}}, held{*open.try_acquire()}, pool{io, {.concurrency = 1}} {}
  template <class Token>
  auto operator()(Token&& token) {
    return pool.async_run(
        [this]() -> net::awaitable<int> {
          auto p = co_await open.acquire();
          co_return 1;
        },
        task_options{}, std::forward<Token>(token));
  }
  void let_go() { held.release(); }
  bool is_unspent() { return pool.stats().working == 0 && pool.stats().queued == 0 && open.stats().waiting == 0; }
  semaphore open;
  permit held;
  strand_pool pool;
};

struct wait_for_task {
  using signature = void(std::exception_ptr, int);
  static constexpr bool has_code = false;
  explicit wait_for_task(net::io_context& io)
      : run{io}, running{run.pool.submit([this]() -> net::awaitable<int> {
          auto p = co_await run.open.acquire();
          co_return 1;
        })} {}
  template <class Token>
  auto operator()(Token&& token) {
    return running.async_wait(std::forward<Token>(token));
  }
  void let_go() { run.let_go(); }
  // A wait for a task that is cancelled leaves the task alone.
  bool is_unspent() { return run.pool.stats().working == 1; }
  run_in_pool run;
  task<int> running;
};

/// What an operation that is composed of `op` names as its I/O object.
template <class Op>
auto& io_object(Op& op, net::io_context& io) {
  if constexpr (requires { op.s; }) {
    return op.s;
  } else if constexpr (requires { op.pool; }) {
    return op.pool;
  } else {
    return io;
  }
}

}  // namespace

TEMPLATE_TEST_CASE("an operation that is let go ends well, whatever its token", "[tokens]", scheduler_acquire,
                   semaphore_acquire, limiter_acquire, close_gate, wait_for_group, run_in_pool, wait_for_task) {
  net::io_context io;
  TestType op{io};
  std::optional<std::error_code> end;
  const auto runs_to_its_end = [&] {
    io.poll();
    REQUIRE(!end);
    op.let_go();
    io.run();
    REQUIRE(end == std::error_code{});
  };
  SECTION("a callback") {
    op(note{&end});
    runs_to_its_end();
  }
  SECTION("on a strand") {
    op(net::bind_executor(net::make_strand(io), note{&end}));
    runs_to_its_end();
  }
#if ASIO_VERSION >= 103800
  SECTION("on Asio's inline executor, which no function can be posted to") {
    op(net::bind_executor(net::inline_executor{}, note{&end}));
    runs_to_its_end();
  }
#endif
  SECTION("deferred") {
    auto later = op(deferred);
    std::move(later)(note{&end});
    runs_to_its_end();
  }
  SECTION("as a tuple, deferred") {
    auto later = op(as_tuple(deferred));
    std::move(later)([&end](auto results) { note{&end}(std::get<0>(results)); });
    runs_to_its_end();
  }
  SECTION("co_await") {
    net::co_spawn(
        io,
        [&]() -> net::awaitable<void> {
          auto results = co_await op(as_tuple(net::use_awaitable));
          note{&end}(std::get<0>(results));
        },
        net::detached);
    runs_to_its_end();
  }
  SECTION("a future") {
    auto future = op(net::use_future);
    io.poll();
    io.restart();  // a future keeps no loop running
    op.let_go();
    io.run();
    REQUIRE_NOTHROW(future.get());
  }
  SECTION("a composed operation with the object as its I/O object") {
    auto step = [&op, begun = false](auto& self, auto&&... results) mutable {
      if constexpr (sizeof...(results) == 0) {
        begun = true;
        op(std::move(self));
      } else {
        REQUIRE(begun);
        self.complete(std::forward<decltype(results)>(results)...);
      }
    };
    note token{&end};
    net::async_compose<note, typename TestType::signature>(std::move(step), token, io_object(op, io));
    runs_to_its_end();
  }
}

TEMPLATE_TEST_CASE("an operation that is cancelled consumes nothing, whatever its token", "[tokens]", scheduler_acquire,
                   semaphore_acquire, limiter_acquire, close_gate, wait_for_group, run_in_pool, wait_for_task) {
  net::io_context io;
  TestType op{io};
  std::optional<std::error_code> end;
  SECTION("by its slot") {
    net::cancellation_signal stop;
    op(net::bind_cancellation_slot(stop.slot(), note{&end}));
    io.poll();
    stop.emit(net::cancellation_type::terminal);
    io.poll();
    REQUIRE(end);
    REQUIRE(is_cancelled(*end));
  }
  SECTION("by its slot, on a strand") {
    net::cancellation_signal stop;
    op(net::bind_executor(net::make_strand(io), net::bind_cancellation_slot(stop.slot(), note{&end})));
    io.poll();
    stop.emit(net::cancellation_type::total);
    io.poll();
    REQUIRE(end);
    REQUIRE(is_cancelled(*end));
  }
  if constexpr (TestType::has_code) {
    SECTION("by canigo::cancel_after") {
      op(canigo::cancel_after(1ms, note{&end}));
      while (!end) io.run_one();
      REQUIRE(*end == errc::timed_out);
    }
#if ASIO_VERSION >= 103800
    SECTION("by canigo::cancel_after, on Asio's inline executor, which keeps no time") {
      op(canigo::cancel_after(1ms, net::bind_executor(net::inline_executor{}, note{&end})));
      while (!end) io.run_one();
      REQUIRE(*end == errc::timed_out);
    }
#endif
    SECTION("by one canigo::cancel_after in another") {
      op(canigo::cancel_after(1h, canigo::cancel_after(1ms, note{&end})));
      while (!end) io.run_one();
      REQUIRE(*end == errc::timed_out);
    }
  }
#if ASIO_VERSION >= 103000
  SECTION("by asio::cancel_after") {
    op(net::cancel_after(1ms, note{&end}));
    while (!end) io.run_one();
    REQUIRE(is_cancelled(*end));
  }
  if constexpr (TestType::has_code) {
    SECTION("by canigo::cancel_after around Asio's") {
      op(canigo::cancel_after(1ms, net::cancel_after(1h, note{&end})));
      while (!end) io.run_one();
      REQUIRE(*end == errc::timed_out);
    }
    SECTION("by asio::cancel_after around canigo's") {
      op(net::cancel_after(1ms, canigo::cancel_after(1h, note{&end})));
      while (!end) io.run_one();
      REQUIRE(is_cancelled(*end));
    }
  }
#endif
  SECTION("by the end of another operation of its group") {
    net::steady_timer other{io, 1ms};
    net::experimental::make_parallel_group([&](auto token) { return op(std::move(token)); },
                                           [&](auto token) { return other.async_wait(std::move(token)); })
        .async_wait(net::experimental::wait_for_one(),
                    [&end](const auto&, auto first, auto&&...) { note{&end}(std::move(first)); });
    while (!end) io.run_one();
    REQUIRE(is_cancelled(*end));
  }
  REQUIRE(op.is_unspent());
}

// A parallel group without an executor gives its operations the system executor, as a timer's handler shows.
TEST_CASE("a handler with the system executor completes on the thread of the limit", "[tokens]") {
  net::io_context io;
  semaphore s{io, {.permits = 1}};
  auto held = s.try_acquire();
  std::vector<std::thread::id> on;
  const auto note_thread = [&on](auto&&...) { on.push_back(std::this_thread::get_id()); };
  net::steady_timer timer{io, 0ms};
  timer.async_wait(net::bind_executor(net::system_executor{}, note_thread));
  s.async_acquire({}, net::bind_executor(net::system_executor{}, note_thread));
  io.poll();
  held->release();
  io.poll();
  CHECK(on == std::vector(2, std::this_thread::get_id()));
  s.async_acquire({}, net::bind_executor(net::system_executor{}, note_thread));  // granted at once
  io.restart();
  io.poll();
  CHECK(on == std::vector(3, std::this_thread::get_id()));
}

#if ASIO_VERSION >= 103000
TEST_CASE("a group of any number of acquires grants one, and the others consume nothing", "[tokens]") {
  net::io_context io;
  semaphore s{io, {.permits = 2}};
  auto first = s.try_acquire();
  auto second = s.try_acquire();
  std::vector<decltype(s.async_acquire({}, deferred))> waits;
  for (int i = 0; i < 5; ++i) waits.push_back(s.async_acquire({}, deferred));
  std::size_t granted = 0;
  bool has_ended = false;
  net::experimental::make_parallel_group(std::move(waits))
      .async_wait(net::experimental::wait_for_one(),
                  [&](const std::vector<std::size_t>&, const std::vector<std::error_code>& errors,
                      const std::vector<permit>& permits) {
                    has_ended = true;
                    for (std::size_t i = 0; i < errors.size(); ++i) {
                      granted += permits[i] ? 1u : 0u;
                      REQUIRE((permits[i] ? errors[i] == std::error_code{} : is_cancelled(errors[i])));
                    }
                  });
  io.poll();
  first->release();
  io.poll();
  REQUIRE(has_ended);
  REQUIRE(granted == 1);
  REQUIRE(s.stats().waiting == 0);
  REQUIRE(s.try_acquire().has_value());
}

TEST_CASE("a limit is an I/O object of a composed coroutine", "[tokens]") {
  net::io_context io;
  semaphore s{io, {.permits = 1}};
  std::optional<std::error_code> end;
  const auto twice = [&s]<class Token>(Token&& token) {
    return net::async_initiate<Token, void(std::error_code)>(net::experimental::co_composed<void(std::error_code)>(
                                                                 [](auto, semaphore& limit) -> void {
                                                                   for (int i = 0; i < 2; ++i) {
                                                                     auto [e, p] = co_await limit.async_acquire(
                                                                         {}, as_tuple(deferred));
                                                                     if (e) co_return e;
                                                                   }
                                                                   co_return std::error_code{};
                                                                 },
                                                                 s),
                                                             token, std::ref(s));
  };
  twice(note{&end});
  io.run();
  REQUIRE(end == std::error_code{});
  REQUIRE(s.try_acquire().has_value());
}
#endif
