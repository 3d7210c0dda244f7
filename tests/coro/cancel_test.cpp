#include "canigo/cancel.hpp"

#include "canigo/detail/coro/child.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/limits_run.hpp"
#include "support/pool_run.hpp"

#include <asio/associated_cancellation_slot.hpp>
#include <asio/async_result.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// An operation that counts how often it is cancelled, and does not end.
struct endless_wait {
  int cancelled = 0;
  std::shared_ptr<void> handler = {};

  net::awaitable<void> wait() {
    co_await net::async_initiate<const net::use_awaitable_t<>&, void()>(
        [this](auto h) {
          net::get_associated_cancellation_slot(h).assign([this](net::cancellation_type) { ++cancelled; });
          handler = std::make_shared<decltype(h)>(std::move(h));
        },
        net::use_awaitable);
  }
};

}  // namespace

TEST_CASE("a cancelled source ends what it wraps, and starts nothing more", "[cancel]") {
  limits_run run;
  cancel_source stop;
  int failed = 0;
  const auto count = [&](std::exception_ptr e) { failed += e != nullptr; };
  net::co_spawn(run.io, stop.wrap(sleep_for(1h)), count);
  run.time.run_for(1s);
  CHECK(failed == 0);
  stop.cancel();
  CHECK(stop.cancelled());
  bool started = false;
  net::co_spawn(run.io, stop.wrap([](bool& flag) -> net::awaitable<void> {
    flag = true;
    co_return;
  }(started)),
                count);
  run.time.run();
  CHECK(failed == 2);
  CHECK_FALSE(started);
  CHECK(run.time.elapsed() == 1s);
}

TEST_CASE("what is wrapped and not cancelled is as it would be without", "[cancel]") {
  limits_run run;
  cancel_source stop;
  run.go([&]() -> net::awaitable<void> {
    const int n = co_await stop.wrap(answer_after(1s));
    CHECK(n == 42);
    const auto breaks = []() -> net::awaitable<void> {
      co_await sleep_for(1s);
      throw std::runtime_error{"broken"};
    };
    const std::string text = co_await outcome_of_any(stop.wrap(breaks()));
    CHECK(text == "broken");
  });
  run.time.run();
  CHECK(run.time.elapsed() == 2s);
  CHECK_FALSE(stop.cancelled());
  stop.cancel();  // nobody is left
  stop.cancel();
  CHECK(stop.cancelled());
}

TEST_CASE("one that ignores its cancellation is awaited, and its value kept", "[cancel]") {
  limits_run run;
  cancel_source stop;
  int got = 0;
  const auto stubborn = []() -> net::awaitable<int> {
    co_await pool_run::stubborn(5s);
    co_return 42;
  };
  run.go([&]() -> net::awaitable<void> { got = co_await stop.wrap(stubborn()); });
  run.time.run_for(1s);
  stop.cancel();
  run.time.run();
  CHECK(got == 42);
  CHECK(run.time.elapsed() == 5s);
}

TEST_CASE("a source cancels all that it wraps, of several parents and nested", "[cancel]") {
  limits_run run;
  cancel_source outer, inner;
  std::vector<std::error_code> ends;
  for (int i = 0; i < 5; ++i) {
    run.go([&]() -> net::awaitable<void> {
      const auto ec = co_await outcome_of(outer.wrap(inner.wrap(sleep_for(1h))));
      ends.push_back(ec);
    });
  }
  run.time.run_for(1s);
  SECTION("the outer one") { outer.cancel(); }
  SECTION("the inner one") { inner.cancel(); }
  SECTION("both") {
    inner.cancel();
    outer.cancel();
  }
  run.time.poll();
  CHECK(ends == std::vector<std::error_code>(5, net::error::operation_aborted));
}

TEST_CASE("some have ended when the others are cancelled", "[cancel]") {
  limits_run run;
  cancel_source stop;
  int ended = 0, aborted = 0;
  for (int i = 1; i <= 6; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const auto ec = co_await outcome_of(stop.wrap(sleep_for(std::chrono::seconds{i})));
      ++(ec ? aborted : ended);
    });
  }
  run.time.run_for(3500ms);
  stop.cancel();
  run.time.poll();
  CHECK(ended == 3);
  CHECK(aborted == 3);
}

TEST_CASE("the parent's cancellation reaches what is wrapped", "[cancel]") {
  limits_run run;
  cancel_source stop;
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&] { return stop.wrap(sleep_for(1h)); }, signal, ended);
  run.time.run_for(1s);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK_FALSE(stop.cancelled());
}

TEST_CASE("a source may go before what it wraps", "[cancel]") {
  limits_run run;
  auto stop = std::make_unique<cancel_source>();
  int got = 0;
  auto op = stop->wrap(answer_after(1s));
  run.go([&, w = std::move(op)]() mutable -> net::awaitable<void> { got = co_await std::move(w); });
  run.time.poll();
  stop.reset();
  run.time.run();
  CHECK(got == 42);
}

TEST_CASE("a coroutine may cancel the source that it runs under", "[cancel]") {
  limits_run run;
  cancel_source stop;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> {
    const auto suicidal = [](cancel_source& own) -> net::awaitable<void> {
      own.cancel();
      co_await sleep_for(1h);
    };
    ended = co_await outcome_of(stop.wrap(suicidal(stop)));
  });
  run.time.run();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.time.elapsed() == 0s);
}

TEST_CASE(
    "where one can't be told for want of memory, others that another thread has told meanwhile are not told again",
    "[cancel]") {
  bool is_set = false;
  int asked = 0;
  cancel_source stop;
  const auto ask = [&] {
    if (++asked > 1) return mood::posts;
    stop.cancel();  // on another thread, as it were: it tells the first
    return mood::throws;
  };
  limits_run run;
  endless_wait first, second;
  net::co_spawn(run.io, stop.wrap(first.wait()), net::detached);
  const net::any_io_executor fickle{fickle_executor{run.io, [&] { return is_set ? ask() : mood::posts; }}};
  net::co_spawn(fickle, stop.wrap(second.wait()), net::detached);
  run.time.poll();
  is_set = true;
  CHECK_THROWS_AS(stop.cancel(), std::bad_alloc);
  CHECK(asked == 1);
  run.time.poll();
  CHECK(first.cancelled == 1);
  stop.cancel();
  run.time.poll();
  CHECK(first.cancelled == 1);
}

TEST_CASE("one that has ended when it is found that it can't be told is forgotten", "[cancel]") {
  bool is_set = false;
  int asked = 0;
  cancel_source stop;
  const auto ask = [&] { return ++asked == 1 ? mood::calls_and_throws : mood::calls; };
  limits_run run;
  const net::any_io_executor fickle{fickle_executor{run.io, [&] { return is_set ? ask() : mood::posts; }}};
  bool ended = false;
  net::co_spawn(fickle, stop.wrap(sleep_for(1h)), [&](const std::exception_ptr& e) { ended = e != nullptr; });
  run.time.poll();
  is_set = true;
  CHECK_THROWS_AS(stop.cancel(), std::bad_alloc);
  CHECK(ended);
  stop.cancel();
}

TEST_CASE("a child that has let go of its strand is not told any more", "[cancel]") {
  net::io_context io;
  const auto c = std::make_shared<detail::child>(io.get_executor());
  c->let_go_of_strand();
  c->cancel(net::cancellation_type::terminal);
  CHECK(io.poll() == 0);
}

TEST_CASE("sources are cancelled from other threads, and each operation ends once", "[cancel]") {
  net::io_context io;
  auto guard = net::make_work_guard(io);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&io] { io.run(); });
  std::atomic<int> ended{0}, aborted{0};
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    cancel_source stop;
    for (int i = 0; i < 5; ++i) {
      net::co_spawn(io, stop.wrap(sleep_for(i == 0 ? duration{1us} : duration{1h})), [&](std::exception_ptr e) {
        aborted += e ? 1 : 0;
        ++ended;
      });
    }
    std::jthread other{[&stop] { stop.cancel(); }};
    stop.cancel();
  }
  while (ended < rounds * 5) std::this_thread::yield();
  CHECK(aborted >= rounds * 4);
  guard.reset();
}
