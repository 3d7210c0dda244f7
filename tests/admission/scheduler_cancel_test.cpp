// Cancelling an acquire: in every state, of every kind, by every way there is.

#include "canigo/cancel.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/timeout.hpp"

#include "support/catch.hpp"
#include "support/timeline.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

using net::cancellation_type;

constexpr cancellation_type all_types[] = {cancellation_type::terminal, cancellation_type::partial,
                                           cancellation_type::total};

// A coroutine that heeds every kind of cancellation, and notes how its acquires end.
net::awaitable<void> acquiring(timeline& t, scheduler& s, std::string who, request r, int times) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  for (int i = 0; i < times; ++i) {
    std::error_code how;
    try {
      co_await s.acquire(r);
    } catch (const std::system_error& e) {
      how = e.code();
    }
    t.note(who, how);
    if (how) co_return;
  }
}

void acquire(timeline& t, scheduler& s, net::cancellation_signal& signal, const std::string& who, request r = {},
             int times = 1) {
  net::co_spawn(t.io, acquiring(t, s, who, r, times), net::bind_cancellation_slot(signal.slot(), net::detached));
  t.time.poll();
}

void acquire_by_callback(timeline& t, scheduler& s, net::cancellation_signal& signal, const std::string& who,
                         request r = {}) {
  s.async_acquire(r, net::bind_cancellation_slot(signal.slot(), [&t, who](std::error_code ec) { t.note(who, ec); }));
}

}  // namespace

TEST_CASE("a cancelled waiter takes no token, and nobody slips", "[scheduler]") {  // S10
  for (const auto type : all_types) {
    for (const bool with_deadline : {false, true}) {
      timeline t;
      scheduler s{t.io, {.rate = rate::per_second(5)}};
      net::cancellation_signal first, second;
      const request r{.deadline = with_deadline ? t.at(1h) : time_point::max()};
      acquire(t, s, first, "coroutine", r);
      acquire_by_callback(t, s, second, "callback", r);
      t.acquire_all(s, {"next"});
      t.time.run_for(100ms);
      first.emit(type);
      second.emit(type);
      CHECK(t.log.empty());  // by a post, not inside emit()
      // Of the coroutine's own cancellation Asio decides: from 1.24 on co_spawn hands it to the loop first.
      events ended = t.poll();
      std::ranges::sort(ended);
      CHECK(ended == events{"callback cancelled 100ms", "coroutine cancelled 100ms"});
      CHECK(t.run() == events{"next 200ms"});
      CHECK(s.stats().cancelled == 2);
      CHECK(t.idle());
    }
  }
}

TEST_CASE("no cancellation is no cancellation", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5)}};
  net::cancellation_signal signal;
  acquire_by_callback(t, s, signal, "a");
  signal.emit(cancellation_type::none);
  CHECK(t.run() == events{"a 200ms"});
}

TEST_CASE("a coroutine that allows only terminal cancellation is not ended by others", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5)}};
  net::cancellation_signal signal;
  net::co_spawn(t.io, s.acquire(), net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr e) {
                  t.note(e ? "failed" : "granted");
                }));
  t.time.poll();
  signal.emit(cancellation_type::partial);
  signal.emit(cancellation_type::total);
  CHECK(t.poll().empty());
  signal.emit(cancellation_type::terminal);
  CHECK(t.poll() == events{"failed 0s"});
}

TEST_CASE("a grant that is under way is not to be cancelled any more", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3}};
  net::cancellation_signal first, second;
  acquire(t, s, first, "coroutine");
  acquire_by_callback(t, s, second, "callback");
  s.refund(2);
  first.emit(cancellation_type::terminal);
  second.emit(cancellation_type::terminal);
  CHECK(t.poll() == events{"coroutine 0s", "callback 0s"});
  const auto now = s.stats();
  CHECK(now.granted == 2);
  CHECK(now.cancelled == 0);
  CHECK(now.tokens == 0);
}

TEST_CASE("whatever comes first decides: cancellation, deadline, stop", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3}};
  net::cancellation_signal signal;
  SECTION("cancelled, then granted, stopped and late") {
    acquire_by_callback(t, s, signal, "a", {.deadline = t.at(200ms)});
    signal.emit(cancellation_type::total);
    s.refund(3);
    s.stop();
    t.time.run_for(1s);
    CHECK(t.take_log() == events{"a cancelled 0s"});
  }
  SECTION("stopped, then cancelled") {
    acquire(t, s, signal, "a");
    s.stop();
    signal.emit(cancellation_type::total);
    CHECK(t.run() == events{"a stopped 0s"});
  }
  SECTION("cancelled twice") {
    acquire(t, s, signal, "a");
    signal.emit(cancellation_type::total);
    signal.emit(cancellation_type::terminal);
    CHECK(t.run() == events{"a cancelled 0s"});
    CHECK(s.stats().cancelled == 1);
  }
  SECTION("late, then cancelled in the same instant") {
    s.pause();
    acquire_by_callback(t, s, signal, "a", {.deadline = t.at(200ms)});
    // Armed after the deadline of the waiter, so called after it.
    net::co_spawn(
        t.io,
        [](net::cancellation_signal& of) -> net::awaitable<void> {
          co_await sleep_for(200ms);
          of.emit(cancellation_type::terminal);
        }(signal),
        net::detached);
    CHECK(t.run() == events{"a timed_out 200ms"});
    CHECK(s.stats().cancelled == 0);
  }
}

TEST_CASE("one that is cancelled before it asks is never granted", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 1, .initial_tokens = 1}};
  net::cancellation_signal signal;
  net::co_spawn(
      t.io,
      [](timeline& of, scheduler& from, net::cancellation_signal& own) -> net::awaitable<void> {
        // From 1.24 on, Asio fails for a coroutine that is cancelled and ends before it was suspended once.
        co_await net::post(net::use_awaitable);
        own.emit(cancellation_type::terminal);
        try {
          co_await from.acquire();
          of.note("granted");
        } catch (const std::system_error& e) {
          of.note("a", e.code());
        }
      }(t, s, signal),
      net::bind_cancellation_slot(signal.slot(), net::detached));
  CHECK(t.run() == events{"a cancelled 0s"});
  CHECK(s.stats().tokens == 1);
}

TEST_CASE("a cancellation after the end is nothing", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5)}};
  net::cancellation_signal signal;
  acquire_by_callback(t, s, signal, "a");
  CHECK(t.run() == events{"a 200ms"});
  CHECK_FALSE(signal.slot().has_handler());
  signal.emit(cancellation_type::terminal);
  CHECK(t.run().empty());
}

TEST_CASE("a signal serves one acquire after the other", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5)}};
  net::cancellation_signal signal;
  acquire(t, s, signal, "a", {}, 5);
  t.time.run_for(500ms);
  signal.emit(cancellation_type::partial);
  CHECK(t.run() == events{"a 200ms", "a 400ms", "a cancelled 500ms"});
}

TEST_CASE("a heavy head that is cancelled lets the lighter one behind it go in the same instant",
          "[scheduler]") {  // S18
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3, .priorities = 2}};
  net::cancellation_signal signal;
  acquire(t, s, signal, "heavy", {.tokens = 3});
  t.acquire_all(s, {"light"}, {.priority = 1});
  t.acquire_all(s, {"lighter"}, {.priority = 1});
  t.time.run_for(250ms);
  signal.emit(cancellation_type::terminal);
  CHECK(t.poll() == events{"heavy cancelled 250ms", "light 250ms"});
  CHECK(t.run() == events{"lighter 400ms"});
}

TEST_CASE("handlers may cancel each other", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 4}};
  std::array<net::cancellation_signal, 4> signals;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    s.async_acquire({}, net::bind_cancellation_slot(signals[i].slot(), [&, i](std::error_code ec) {
                      t.note(std::to_string(i), ec);
                      for (auto& signal : signals) signal.emit(cancellation_type::terminal);
                    }));
  }
  SECTION("one at a time") {
    CHECK(t.run() == events{"0 200ms", "1 cancelled 200ms", "2 cancelled 200ms", "3 cancelled 200ms"});
  }
  SECTION("too late, as all are granted") {
    s.refund(4);
    CHECK(t.run() == events{"0 0s", "1 0s", "2 0s", "3 0s"});
  }
}

TEST_CASE("a thousand cancelled from the middle of the queue", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .priorities = 3}};
  std::vector<std::unique_ptr<net::cancellation_signal>> signals;
  int ended = 0;
  for (int i = 0; i < 1000; ++i) {
    signals.push_back(std::make_unique<net::cancellation_signal>());
    s.async_acquire({.priority = i % 3}, net::bind_cancellation_slot(signals.back()->slot(), [&](std::error_code ec) {
                      CHECK(ec == net::error::operation_aborted);
                      ++ended;
                    }));
  }
  t.acquire_all(s, {"last"}, {.priority = 2});
  for (int i = 0; i < 1000; ++i) signals[static_cast<std::size_t>(i * 7 % 1000)]->emit(cancellation_type::terminal);
  CHECK(t.run() == events{"last 200ms"});
  CHECK(ended == 1000);
}

TEST_CASE("a time limit and a cancel source end an acquire", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1)}};
  cancel_source source;
  const auto limited = [](timeline& of, scheduler& from) -> net::awaitable<void> {
    try {
      co_await with_timeout(from.acquire(), 300ms);
    } catch (const std::system_error& e) {
      of.note("limited", e.code());
    }
  };
  const auto wrapped = [](timeline& of, scheduler& from, cancel_source& by) -> net::awaitable<void> {
    try {
      co_await by.wrap(from.acquire());
    } catch (const std::system_error& e) {
      of.note("wrapped", e.code());
    }
  };
  net::co_spawn(t.io, limited(t, s), net::detached);
  net::co_spawn(t.io, wrapped(t, s, source), net::detached);
  t.acquire_all(s, {"next"});
  t.time.run_for(500ms);
  source.cancel();
  CHECK(t.run() == events{"limited timed_out 300ms", "wrapped cancelled 500ms", "next 1s"});
}

// ---- at every suspension point ----

namespace {

// Three coroutines that wait in many ways; `steps` handlers are run before the first is cancelled.
struct cancelled_at_step {
  net::io_context io;
  time_source_control clock{io, time_point{}};
  scheduler s{io, {.rate = rate::per_second(10), .burst = 2, .initial_tokens = 1, .priorities = 2}};
  net::cancellation_signal signal;
  int ended = 0;
  bool was_cancelled = false;

  net::awaitable<void> take(request r) { co_await s.acquire(r); }

  net::awaitable<void> victim() {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    try {
      co_await take({});
      co_await sleep_for(50ms);
      co_await take({.tokens = 2});
      co_await with_timeout(take({.priority = 1}), 1s);
      co_await s.async_acquire({.priority = 1, .deadline = clock.now() + 10s}, net::use_awaitable);
      co_await take({.priority = 1, .deadline = clock.now() + 10s});
    } catch (const std::system_error& e) {
      was_cancelled = e.code() == net::error::operation_aborted || e.code() == errc::timed_out;
      CHECK(was_cancelled);
    }
  }

  net::awaitable<void> other(int priority) {
    for (int i = 0; i < 4; ++i) co_await take({.priority = priority, .deadline = clock.now() + 20s});
  }

  // One handler or, if none is ready, one step of time; false if there is neither.
  bool step() {
    io.restart();
    if (io.poll_one() != 0) return true;
    const time_point next = clock.next();
    if (next == time_point::max()) return false;
    clock.advance(next);
    return true;
  }

  // Cancels the victim after so many steps; false if everything had ended before that.
  bool run(int steps, net::cancellation_type type) {
    const auto count = [this](std::exception_ptr) { ++ended; };
    net::co_spawn(io, victim(), net::bind_cancellation_slot(signal.slot(), count));
    net::co_spawn(io, other(0), count);
    net::co_spawn(io, other(1), count);
    bool reached = true;
    for (int i = 0; i < steps && reached; ++i) reached = step();
    if (reached) signal.emit(type);
    while (step()) {
    }
    CHECK(ended == 3);
    CHECK(time_source::of(io.get_executor()).idle());
    const auto end = s.stats();
    CHECK(end.waiting == 0);
    CHECK(end.requested == end.granted + end.cancelled + end.timed_out + end.rejected);
    clock.advance(time_point{1h});
    CHECK(s.try_acquire({.tokens = 2}));
    CHECK_FALSE(s.try_acquire());
    return reached;
  }
};

}  // namespace

TEST_CASE("cancelled at every step, everybody ends and no token is lost", "[scheduler]") {
  for (const auto type : all_types) {
    int steps = 0;
    int cancelled = 0;
    for (bool reached = true; reached; ++steps) {
      cancelled_at_step scenario;
      reached = scenario.run(steps, type);
      if (scenario.was_cancelled) ++cancelled;
    }
    CHECK(steps > 25);
    CHECK(cancelled > 20);
  }
}
