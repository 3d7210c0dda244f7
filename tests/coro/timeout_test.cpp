#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"
#include "support/pool_run.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

// Ends with a value, whether it is cancelled or not.
net::awaitable<int> stubborn_answer(duration d) {
  co_await pool_run::stubborn(d);
  co_return 42;
}

net::awaitable<void> throws_after(duration d) {
  co_await sleep_for(d);
  throw std::runtime_error{"broken"};
}

// What `op` came to, as "value@ms" or "what@ms".
template <class T>
std::string said(limits_run& run, net::awaitable<T> op) {
  std::string text;
  net::co_spawn(run.io, std::move(op), [&](std::exception_ptr e, auto... value) {
    try {
      if (e) std::rethrow_exception(e);
      ((text = std::to_string(value)), ...);
    } catch (const std::system_error& error) {
      text = error.code() == errc::timed_out                 ? "timed_out"
             : error.code() == net::error::operation_aborted ? "aborted"
                                                             : error.code().message();
    } catch (const std::exception& error) {
      text = error.what();
    }
    text += "@" + std::to_string(run.ms());
  });
  run.time.run();
  return text;
}

}  // namespace

TEST_CASE("an operation over its time is cancelled and ends with timed_out", "[timeout]") {
  limits_run run;
  CHECK(said(run, with_timeout(sleep_for(1h), 2s)) == "timed_out@2000");
  CHECK(time_source::of(run.io.get_executor()).idle());
}

TEST_CASE("what comes of an operation with a limit of time", "[timeout]") {
  limits_run run;
  SECTION("in time: its value, and nothing stays armed") {
    CHECK(said(run, with_timeout(answer_after(10ms), 2s)) == "42@10");
  }
  SECTION("in time, without ever waiting") { CHECK(said(run, with_timeout(answer_after(0s), 2s)) == "42@0"); }
  SECTION("at its very end: it has a value, so that counts") {
    CHECK(said(run, with_timeout(answer_after(2s), 2s)) == "42@2000");
  }
  SECTION("an exception of its own") { CHECK(said(run, with_timeout(throws_after(10ms), 2s)) == "broken@10"); }
  SECTION("one that ignores the cancellation is awaited, and its late value kept") {
    CHECK(said(run, with_timeout(stubborn_answer(5s), 2s)) == "42@5000");
  }
  SECTION("one that throws something else when it is cancelled has timed out, too") {
    const auto other = []() -> net::awaitable<void> {
      try {
        co_await sleep_for(1h);
      } catch (const std::system_error&) {
        throw std::runtime_error{"closed"};
      }
    };
    CHECK(said(run, with_timeout(other(), 2s)) == "timed_out@2000");
  }
  SECTION("operation_aborted of its own, before its time, is not a timeout") {
    const auto aborts = []() -> net::awaitable<void> {
      co_await sleep_for(1ms);
      throw std::system_error{net::error::operation_aborted};
    };
    CHECK(said(run, with_timeout(aborts(), 2s)) == "aborted@1");
  }
  SECTION("no time at all") { CHECK(said(run, with_timeout(sleep_for(1h), 0s)) == "timed_out@0"); }
  SECTION("less than none") { CHECK(said(run, with_timeout(sleep_for(1h), -1h)) == "timed_out@0"); }
  SECTION("all the time there is") {
    CHECK(said(run, with_timeout(answer_after(24h), duration::max())) == "42@86400000");
  }
  SECTION("a deadline") { CHECK(said(run, with_deadline(sleep_for(1h), time_point{3s})) == "timed_out@3000"); }
  SECTION("a deadline that has passed") {
    CHECK(said(run, with_deadline(sleep_for(1h), time_point::min())) == "timed_out@0");
  }
  SECTION("nested: the shorter one counts, inside") {
    CHECK(said(run, with_timeout(with_timeout(sleep_for(1h), 1s), 2s)) == "timed_out@1000");
  }
  SECTION("nested: the shorter one counts, outside") {
    CHECK(said(run, with_timeout(with_timeout(sleep_for(1h), 2s), 1s)) == "timed_out@1000");
  }
  CHECK(time_source::of(run.io.get_executor()).idle());
}

TEST_CASE("an operation without any time left is cancelled at once", "[timeout]") {
  limits_run run;
  CHECK(said(run, with_timeout(sleep_for(1h), 0s)) == "timed_out@0");
  CHECK(said(run, with_timeout(sleep_for(1h), -1s)) == "timed_out@0");
  CHECK(said(run, with_deadline(sleep_for(1h), time_point::min())) == "timed_out@0");
}

TEST_CASE("a time limit that nobody starts has no operation and arms nothing", "[timeout]") {
  limits_run run;
  bool has_begun = false;
  const auto op = [&]() -> net::awaitable<void> {
    has_begun = true;
    co_return;
  };
  {
    const auto unstarted = with_timeout(op(), 2s);
  }
  {
    const auto unstarted = sleep_for(1s);
  }
  CHECK(time_source::of(run.io.get_executor()).idle());
  run.time.run();
  CHECK_FALSE(has_begun);
}

TEST_CASE("the span of a sleep and of a time limit begins when they are started", "[timeout]") {
  limits_run run;
  auto sleep = sleep_for(1s);
  auto limited = with_timeout(sleep_for(1h), 2s);
  run.time.run_for(10s);
  CHECK(said(run, std::move(sleep)) == "@11000");
  CHECK(said(run, std::move(limited)) == "timed_out@13000");
}

TEST_CASE("results that can only be moved, and large ones, come through a limit of time", "[timeout]") {
  limits_run run;
  run.go([]() -> net::awaitable<void> {
    const auto make = []() -> net::awaitable<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
    const std::unique_ptr<int> p = co_await with_timeout(make(), 1s);
    CHECK(*p == 7);
  });
  run.time.run();
}

TEST_CASE("the parent's cancellation reaches the operation, and is no timeout", "[timeout]") {
  limits_run run;
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([]() { return with_timeout(with_timeout(sleep_for(1h), 10s), 5s); }, signal, ended);
  run.time.run_for(1s);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(time_source::of(run.io.get_executor()).idle());
}

TEST_CASE("a coroutine goes on after a timeout, and may have the next", "[timeout]") {
  limits_run run;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 3; ++i) {
      const std::error_code ec = co_await outcome_of(with_timeout(sleep_for(1h), 1s));
      CHECK(ec == errc::timed_out);
    }
    run.note("done");
  });
  run.time.run();
  CHECK(run.log == log_lines{"done@3000"});
}

TEST_CASE("sleeps end when they are due, in the order in which they began", "[timeout]") {
  limits_run run;
  for (const int ms : {30, 10, 20, 10}) {
    run.go([&run, ms]() -> net::awaitable<void> {
      co_await sleep_for(std::chrono::milliseconds{ms});
      run.note(std::to_string(ms));
    });
  }
  run.go([&run]() -> net::awaitable<void> {
    co_await sleep_until(time_point{10ms});
    run.note("until");
  });
  run.time.run();
  CHECK(run.log == log_lines{"10@10", "10@10", "until@10", "20@20", "30@30"});
}

TEST_CASE("a sleep of nothing still goes through the event loop", "[timeout]") {
  limits_run run;
  run.go([&run]() -> net::awaitable<void> {
    net::post(run.io, [&run] { run.note("posted"); });
    co_await sleep_for(-1h);
    run.note("slept");
  });
  run.time.run();
  CHECK(run.log == log_lines{"posted@0", "slept@0"});
}

TEST_CASE("a sleeper is cancelled in every way, and leaves nothing armed", "[timeout]") {
  for (const auto type :
       {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
    limits_run run;
    net::cancellation_signal signal;
    std::error_code ended;
    run.go(
        []() -> net::awaitable<void> {
          co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
          co_await sleep_for(1h);
        },
        signal, ended);
    run.time.run_for(1s);
    signal.emit(type);
    run.time.poll();
    CHECK(ended == net::error::operation_aborted);
    CHECK(time_source::of(run.io.get_executor()).idle());
  }
}

TEST_CASE("a context goes while its coroutines sleep and have limits of time", "[timeout]") {
  int destroyed = 0;
  struct witness {
    int& n;
    explicit witness(int& count) : n{count} {}
    ~witness() { ++n; }
  };
  {
    limits_run run;
    for (int i = 0; i < 3; ++i) {
      run.go([&]() -> net::awaitable<void> {
        const witness w{destroyed};
        co_await with_timeout(sleep_for(1h), 2h);
      });
    }
    run.time.run_for(1s);
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 3);
}

TEST_CASE("a signal outlives the context, with the operation ended or not", "[timeout]") {
  net::cancellation_signal ended_in_time, never_ended;
  {
    limits_run run;
    std::error_code how;
    run.go([]() -> net::awaitable<void> { co_await with_timeout(sleep_for(1s), 1h); }, ended_in_time, how);
    run.go([]() -> net::awaitable<void> { co_await with_timeout(sleep_for(1h), 2h); }, never_ended, how);
    run.time.run_for(2s);
  }
  ended_in_time.emit(net::cancellation_type::terminal);
  never_ended.emit(net::cancellation_type::terminal);
}

TEST_CASE("limits of time on many threads: each operation ends once", "[timeout]") {
  net::io_context io;
  auto guard = net::make_work_guard(io);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&io] { io.run(); });
  std::atomic<int> ended{0}, wrong{0};
  constexpr int many = 500;
  for (int i = 0; i < many; ++i) {
    const bool on_strand = i % 2 == 0;
    const net::any_io_executor executor =
        on_strand ? net::any_io_executor{net::make_strand(io)} : net::any_io_executor{io.get_executor()};
    net::co_spawn(executor, with_timeout(answer_after(std::chrono::microseconds{i % 5 * 20}), 50us),
                  [&](std::exception_ptr e, int value) {
                    if (e ? code_of(e) != errc::timed_out : value != 42) ++wrong;
                    ++ended;
                  });
  }
  while (ended < many) std::this_thread::yield();
  CHECK(wrong == 0);
  guard.reset();
}
