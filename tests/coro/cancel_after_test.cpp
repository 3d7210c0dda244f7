#include "canigo/cancel_after.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/associated_executor.hpp>
#include <asio/bind_executor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/system_executor.hpp>
#include <asio/use_future.hpp>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// An operation that never ends by itself, of the kind that Asio's sockets have: it heeds its cancellation slot, or
/// not.
struct endless {
  net::io_context& io;
  bool heeds = true;
  std::function<void(std::error_code)> finish = {};

  template <class Token>
  auto async_wait(Token&& token) {
    return net::async_initiate<Token, void(std::error_code, int)>(
        [this](auto handler) {
          using handler_type = decltype(handler);
          const auto h = std::make_shared<handler_type>(std::move(handler));
          finish = [this, h](std::error_code ec) { net::post(io, [h, ec] { std::move (*h)(ec, ec ? 0 : 42); }); };
          if (auto slot = net::get_associated_cancellation_slot(*h); slot.is_connected() && heeds) {
            slot.assign([this](net::cancellation_type) { finish(net::error::operation_aborted); });
          }
        },
        token);
  }
};

/// One that ends inside `finish`, at once.
struct told {
  std::function<void()> finish = {};
  int cancelled = 0;

  template <class Token>
  auto async_wait(Token&& token) {
    return net::async_initiate<Token, void(std::error_code)>(
        [this](auto handler) {
          net::get_associated_cancellation_slot(handler).assign([this](net::cancellation_type) { ++cancelled; });
          const auto h = std::make_shared<decltype(handler)>(std::move(handler));
          finish = [h] { std::move (*h)(std::error_code{}); };
        },
        token);
  }
};

}  // namespace

TEST_CASE("an Asio operation over its limit ends with timed_out", "[cancel_after]") {
  limits_run run;
  net::steady_timer timer{run.io, 24h};
  std::error_code error;
  timer.async_wait(canigo::cancel_after(2s, net::bind_executor(run.io, [&](std::error_code e) { error = e; })));
  run.time.run();
  CHECK(error == errc::timed_out);
  CHECK(run.time.elapsed() == 2s);
}

TEST_CASE("what comes of an operation with a limit", "[cancel_after]") {
  limits_run run;
  endless op{run.io};
  std::error_code how = make_error_code(errc::stopped);
  int value = -1;
  const auto start = [&] {
    op.async_wait(canigo::cancel_after(2s, net::bind_executor(run.io, [&](std::error_code ec, int n) {
                                         how = ec;
                                         value = n;
                                       })));
    run.time.run_for(1s);
  };
  SECTION("in time: its result, and nothing stays armed") {
    start();
    op.finish({});
    run.time.poll();
    CHECK_FALSE(how);
    CHECK(value == 42);
  }
  SECTION("late, without having heeded the cancellation: its result") {
    op.heeds = false;
    start();
    run.time.run_for(10s);
    CHECK(how == errc::stopped);
    op.finish({});
    run.time.poll();
    CHECK_FALSE(how);
    CHECK(value == 42);
  }
  SECTION("another error, late: whatever it makes of the cancellation") {
    op.heeds = false;
    start();
    run.time.run_for(10s);
    op.finish(make_error_code(errc::queue_full));
    run.time.poll();
    CHECK(how == errc::timed_out);
  }
  SECTION("operation_aborted of its own, in time, is not a timeout") {
    start();
    op.finish(net::error::operation_aborted);
    run.time.poll();
    CHECK(how == net::error::operation_aborted);
  }
  SECTION("over its limit") {
    start();
    run.time.run_for(1s - 1ns);
    CHECK(how == errc::stopped);
    run.time.run_for(1ns);
    CHECK(how == errc::timed_out);
  }
  CHECK(time_source::of(run.io.get_executor()).idle());
}

TEST_CASE("an operation that ends at its limit, before it is told, has its result", "[cancel_after]") {
  limits_run run;
  told op;
  std::error_code how = make_error_code(errc::stopped);
  run.go([&]() -> net::awaitable<void> {
    co_await sleep_for(2s);
    op.finish();
  });
  run.time.poll();
  op.async_wait(canigo::cancel_after(2s, net::bind_executor(run.io, [&](std::error_code ec) { how = ec; })));
  run.time.run();
  CHECK_FALSE(how);
  CHECK(op.cancelled == 0);
}

TEST_CASE("co_await with a limit throws timed_out, and the coroutine goes on", "[cancel_after]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    endless op{run.io};
    for (int i = 0; i < 3; ++i) {
      std::error_code ec;
      try {
        co_await op.async_wait(canigo::cancel_after(1s));
      } catch (const std::system_error& e) {
        ec = e.code();
      }
      CHECK(ec == errc::timed_out);
    }
    run.note("done");
  });
  run.time.run();
  CHECK(run.log == log_lines{"done@3000"});
}

TEST_CASE("the cancellation of the coroutine is passed on, and is no timeout", "[cancel_after]") {
  limits_run run;
  net::cancellation_signal signal;
  std::error_code ended;
  endless op{run.io};
  run.go([&]() -> net::awaitable<void> { co_await op.async_wait(canigo::cancel_after(10s)); }, signal, ended);
  run.time.run_for(1s);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(time_source::of(run.io.get_executor()).idle());
}

TEST_CASE("any other token takes a limit: a future", "[cancel_after]") {
  limits_run run;
  endless op{run.io};
  auto future = op.async_wait(canigo::cancel_after(1s, net::bind_executor(run.io, net::use_future)));
  run.time.run();
  try {
    future.get();
    FAIL("no exception");
  } catch (const std::system_error& e) {
    CHECK(e.code() == errc::timed_out);
  }
}

TEST_CASE("an operation with a limit says the executor of its initiation, if it has one", "[cancel_after]") {
  struct plain {};
  struct placed {
    using executor_type = net::any_io_executor;
    executor_type get_executor() const noexcept { return {}; }
  };
  CHECK(std::is_same_v<net::associated_executor<detail::start_timed<placed>>::type, net::any_io_executor>);
  CHECK(std::is_same_v<net::associated_executor<detail::start_timed<plain>>::type, net::system_executor>);
}

TEST_CASE("a limited operation completes on its handler's executor", "[cancel_after]") {
  limits_run run;
  const auto strand = net::make_strand(run.io);
  endless op{run.io};
  bool on_strand = false;
  op.async_wait(canigo::cancel_after(
      1s, net::bind_executor(strand, [&](std::error_code, int) { on_strand = strand.running_in_this_thread(); })));
  // The operation above calls its handler without looking at its executor; Asio's own look.
  net::steady_timer timer{run.io, 24h};
  bool timer_on_strand = false;
  timer.async_wait(canigo::cancel_after(
      1s, net::bind_executor(strand, [&](std::error_code) { timer_on_strand = strand.running_in_this_thread(); })));
  run.time.run();
  CHECK_FALSE(on_strand);
  CHECK(timer_on_strand);
}

TEST_CASE("a context goes while a limited operation is under way", "[cancel_after]") {
  const auto alive = std::make_shared<int>(1);
  {
    limits_run run;
    net::steady_timer timer{run.io, 24h};
    timer.async_wait(
        canigo::cancel_after(1h, net::bind_executor(run.io, [alive](std::error_code) { FAIL("called"); })));
    run.time.run_for(1s);
    CHECK(alive.use_count() == 2);
  }
  CHECK(alive.use_count() == 1);
}
