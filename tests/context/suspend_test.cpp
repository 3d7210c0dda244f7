// Everything that suspends, cancelled at every suspension point in every way: who is cancelled has taken nothing, the
// others are served, and nothing stays armed.

#include "canigo/detail/context/suspend.hpp"

#include "canigo/cancel.hpp"
#include "canigo/gate.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/task_group.hpp"
#include "canigo/timeout.hpp"
#include "canigo/wait_group.hpp"

#include "support/accounting_allocator.hpp"
#include "support/catch.hpp"

#include <asio/associated_executor.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

/// One of everything that can be waited for, a victim and others who want the same.
struct waiting_rooms {
  net::io_context io;
  time_source_control clock{io, time_point{}};
  scheduler rate_limit{io, {.rate = rate::per_second(100), .burst = 3, .initial_tokens = 1, .priorities = 2}};
  semaphore places{io, {.permits = 2, .priorities = 2}};
  limiter both{io, {.rates = {{rate::per_second(100), 3, 1}}, .concurrency = 2, .priorities = 2}};
  gate door{io};
  wait_group crowd{io};
  task_group children{io};
  int children_inside = 0;

  net::cancellation_signal signal;
  int started = 0;
  int ended = 0;
  std::vector<std::string> unexpected;

  time_point in(duration d) const { return clock.now() + d; }

  void spawn(net::awaitable<void> op, net::cancellation_slot slot = {}) {
    ++started;
    net::co_spawn(io, heeding_all(std::move(op)), net::bind_cancellation_slot(slot, [this](std::exception_ptr e) {
                    ++ended;
                    note(e);
                  }));
  }

  /// One handler or, if none is ready, one step of time; false if there is neither.
  bool step() {
    io.restart();
    if (io.poll_one() != 0) return true;
    const time_point next = clock.next();
    if (next == time_point::max()) return false;
    clock.advance(next);
    return true;
  }

 private:
  static net::awaitable<void> heeding_all(net::awaitable<void> op) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    co_await std::move(op);
  }

  void note(const std::exception_ptr& e) {
    try {
      if (e) std::rethrow_exception(e);
    } catch (const std::system_error& error) {
      if (error.code() != net::error::operation_aborted) unexpected.emplace_back(error.what());
    }
  }
};

// ---- what is cancelled: each waits several times, in several ways ----

net::awaitable<void> acquires(waiting_rooms& w) {
  co_await w.rate_limit.acquire();
  co_await w.rate_limit.acquire({.tokens = 3});
  co_await w.rate_limit.acquire(1);
}

net::awaitable<void> acquires_with_a_deadline(waiting_rooms& w) {
  co_await w.rate_limit.acquire({.deadline = w.in(1s)});
  co_await w.rate_limit.acquire({.priority = 1, .tokens = 2, .deadline = w.in(1s)});
}

net::awaitable<void> sleeps(waiting_rooms& w) {
  co_await sleep_for(0s);
  co_await sleep_for(5ms);
  co_await sleep_until(w.in(12ms));
}

net::awaitable<void> acquires_within_a_limit_of_time(waiting_rooms& w) {
  co_await with_timeout(w.rate_limit.acquire({.tokens = 2}), 1s);
  co_await with_timeout(with_timeout(w.rate_limit.acquire(), 2s), 1s);
}

net::awaitable<void> is_wrapped_by_a_cancel_source(waiting_rooms& w) {
  cancel_source source;
  co_await source.wrap(w.rate_limit.acquire({.tokens = 2}));
  co_await source.wrap(sleep_for(3ms));
}

net::awaitable<void> holds_permits(waiting_rooms& w) {
  const permit one = co_await w.places.acquire();
  co_await sleep_for(3ms);
  const permit two = co_await w.places.acquire({.priority = 1, .deadline = w.in(10s)});
}

net::awaitable<void> holds_both(waiting_rooms& w) {
  permit one = co_await w.both.acquire({.tokens = 2});
  one.settle(1);
  co_await sleep_for(3ms);
  const permit two = co_await w.both.acquire({.priority = 1, .deadline = w.in(10s)});
}

net::awaitable<void> closes_a_gate(waiting_rooms& w) {
  co_await sleep_for(1ms);
  co_await w.door.close();
  co_await w.door.close();
}

net::awaitable<void> waits_for_a_group(waiting_rooms& w) {
  co_await w.crowd.wait();
  co_await w.crowd.wait();
}

net::awaitable<void> child(waiting_rooms& w) {
  struct inside {
    int& n;
    explicit inside(int& count) : n{++count} {}
    ~inside() { --n; }
  };
  const inside here{w.children_inside};
  co_await w.rate_limit.acquire();
  const permit p = co_await w.places.acquire({.priority = 1});
  co_await sleep_for(2ms);
}

net::awaitable<void> joins_children(waiting_rooms& w) {
  for (int i = 0; i < 3; ++i) w.children.spawn(child(w));
  co_await w.children.join();
}

// ---- what the others do meanwhile, and need all of it ----

net::awaitable<void> other(waiting_rooms& w, int priority) {
  co_await w.rate_limit.acquire(priority);
  {
    const permit p = co_await w.places.acquire({.priority = priority});
    const permit q = co_await w.both.acquire(priority);
    co_await sleep_for(2ms);
  }
  co_await w.rate_limit.acquire({.priority = priority, .tokens = 2});
}

net::awaitable<void> inside_the_gate(waiting_rooms& w) {
  const permit inside = w.door.enter();
  co_await sleep_for(4ms);
  w.crowd.done();
}

/// Cancels the victim after so many steps; false if all was over before that.
bool cancelled_after(net::awaitable<void> (*victim)(waiting_rooms&), int steps, net::cancellation_type type) {
  waiting_rooms w;
  w.crowd.add();
  w.spawn(victim(w), w.signal.slot());
  w.spawn(other(w, 0));
  w.spawn(other(w, 1));
  w.spawn(inside_the_gate(w));
  bool reached = true;
  for (int i = 0; i < steps && reached; ++i) reached = w.step();
  if (reached) w.signal.emit(type);
  while (w.step()) {
  }
  CHECK(w.ended == w.started);
  CHECK(w.unexpected == std::vector<std::string>{});
  CHECK(w.children_inside == 0);
  CHECK(time_source::of(w.io.get_executor()).idle());
  for (const queue_stats& s :
       {queue_stats{w.rate_limit.stats()}, queue_stats{w.places.stats()}, queue_stats{w.both.stats()}}) {
    CHECK(s.waiting == 0);
    CHECK(s.requested == s.granted + s.cancelled);
  }
  CHECK(w.places.stats().held == 0);
  CHECK(w.both.stats().held == 0);
  CHECK(w.door.count() == 0);
  // Nothing was consumed that nobody was granted: the buckets are full when they ought to be.
  w.clock.advance(w.in(1h));
  CHECK(w.rate_limit.stats().tokens == 3);
  CHECK(w.both.stats().tokens == std::vector<std::int64_t>{3});
  return reached;
}

}  // namespace

TEST_CASE("cancelled at every suspension point, in every way, nothing is consumed and the others are served",
          "[suspend]") {
  struct {
    const char* name;
    net::awaitable<void> (*victim)(waiting_rooms&);
  } const victims[] = {
      {"acquires", acquires},
      {"acquires with a deadline", acquires_with_a_deadline},
      {"sleeps", sleeps},
      {"acquires within a limit of time", acquires_within_a_limit_of_time},
      {"is wrapped by a cancel source", is_wrapped_by_a_cancel_source},
      {"holds permits", holds_permits},
      {"holds both", holds_both},
      {"closes a gate", closes_a_gate},
      {"waits for a group", waits_for_a_group},
      {"joins children", joins_children},
  };
  for (const auto& v : victims) {
    for (const auto type :
         {net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total}) {
      int steps = 0;
      for (bool reached = true; reached; ++steps) {
        INFO(v.name << ", cancellation " << static_cast<int>(type) << " after " << steps << " steps");
        reached = cancelled_after(v.victim, steps, type);
      }
      CHECK(steps > 15);
    }
  }
}

// ---- the list of those who are to be resumed ----

namespace {

struct name final : detail::suspended {
  explicit name(char c) : letter{c} {}
  void resume() override {}
  void post() override {}
  void destroy() noexcept override {}
  char letter;
};

std::string drained(detail::suspended_list& list) {
  std::string text;
  while (detail::suspended* s = list.pop()) text += static_cast<name*>(s)->letter;
  return text;
}

}  // namespace

TEST_CASE("a list of suspended callers is first in, first out", "[suspend]") {
  name a{'a'}, b{'b'}, c{'c'};
  detail::suspended_list list;
  CHECK(list.empty());
  CHECK(list.pop() == nullptr);
  for (name* n : {&a, &b, &c}) list.push(*n);
  CHECK(list.front() == &a);
  CHECK(drained(list) == "abc");
  CHECK(list.empty());

  detail::suspended_list other;
  list.push(a);
  other.push(b);
  other.push(c);
  list.append(std::move(other));
  detail::suspended_list moved{std::move(list)};
  CHECK(list.empty());  // NOLINT: what a moved-from list is, is promised
  CHECK(drained(moved) == "abc");
}

TEST_CASE("a post under way is known by its caller, on its thread, while it lasts", "[suspend]") {
  name a{'a'}, b{'b'};
  CHECK_FALSE(detail::posting::is_under_way(a));
  {
    const detail::posting outer{a};
    CHECK(detail::posting::is_under_way(a));
    CHECK_FALSE(detail::posting::is_under_way(b));
    CHECK_FALSE(detail::posting::note_dropped(b));
    {
      const detail::posting inner{b};
      CHECK(detail::posting::is_under_way(a));
      CHECK(detail::posting::note_dropped(b));
      CHECK(inner.was_dropped());
    }
    CHECK_FALSE(outer.was_dropped());
    CHECK_FALSE(detail::posting::is_under_way(b));
  }
  CHECK_FALSE(detail::posting::is_under_way(a));
}

// ---- handlers that can't be moved where they are to be kept ----

namespace {

/// Can be moved so many times.
struct fragile {
  using allocator_type = accounting_allocator<void>;
  fragile(int& moves, account& books, int& calls) noexcept : moves_left{&moves}, allocator{books}, called{&calls} {}
  fragile(fragile&& other) : moves_left{other.moves_left}, allocator{other.allocator}, called{other.called} {
    if ((*moves_left)-- == 0) throw std::runtime_error{"broken"};
  }
  allocator_type get_allocator() const noexcept { return allocator; }
  void operator()(std::error_code, const permit&) const { ++*called; }
  int* moves_left;
  allocator_type allocator;
  int* called;
};

/// An executor that wraps another one, whichever that is, as the handlers of stdexec's senders have it.
template <class Inner>
struct wrapping_executor {
  Inner inner;
  int* passed;
  void execute(auto function) const {
    inner.execute([passed = passed, function = std::move(function)]() mutable {
      ++*passed;
      std::move(function)();
    });
  }
  template <class Property>
  auto query(const Property& p) const -> decltype(net::query(inner, p)) {
    return net::query(inner, p);
  }
  template <class Property>
  auto require(const Property& p) const -> wrapping_executor<std::decay_t<decltype(net::require(inner, p))>> {
    return {net::require(inner, p), passed};
  }
  bool operator==(const wrapping_executor& other) const noexcept { return inner == other.inner; }
  bool operator!=(const wrapping_executor& other) const noexcept { return !(*this == other); }
};

struct wrapping_handler {
  int* passed;
  std::vector<int>* called;
  void operator()(std::error_code, const permit&) const { called->push_back(*passed); }
};

}  // namespace

template <class Inner>
struct asio::associated_executor<wrapping_handler, Inner> {
  using type = wrapping_executor<Inner>;
  static type get(const wrapping_handler& h, const Inner& inner = Inner()) noexcept { return {inner, h.passed}; }
};

TEST_CASE("a handler that wraps the executor it is offered is called by way of the wrapper", "[suspend]") {
  net::io_context io;
  semaphore s{io, {.permits = 1}};
  int passed = 0;
  std::vector<int> called;
  s.async_acquire({}, wrapping_handler{&passed, &called});  // at once
  io.run();
  CHECK(called == std::vector{1});
  permit taken = s.try_acquire().value();
  s.async_acquire({}, wrapping_handler{&passed, &called});
  io.restart();
  net::post(io, [&taken] { taken.release(); });
  io.run();
  CHECK(called == std::vector{1, 2});
}

TEST_CASE("a handler that breaks on its way in leaves nothing behind", "[suspend]") {
  int broken = 0;
  for (bool was_kept = false; !was_kept; ++broken) {
    net::io_context io;
    semaphore s{io, {.permits = 1}};
    permit taken = s.try_acquire().value();
    account books;
    int moves = broken, called = 0;
    try {
      s.async_acquire({}, fragile{moves, books, called});
      was_kept = true;
    } catch (const std::runtime_error&) {
    }
    moves = std::numeric_limits<int>::max();
    CHECK((books.balance > 0) == was_kept);
    CHECK(s.stats().waiting == (was_kept ? 1 : 0));
    taken.release();
    io.run();
    CHECK(called == (was_kept ? 1 : 0));
    CHECK(s.stats().held == 0);
    CHECK(books.balance == 0);
  }
  CHECK(broken > 1);
}

TEST_CASE("a coroutine that is parked in its own frame goes on there, with the results of its wait", "[suspend]") {
  net::io_context io;
  net::cancellation_signal stop;
  semaphore places{io, {.permits = 1}};
  permit held = *places.try_acquire();
  std::vector<error_code> ends;
  const auto wait = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 2; ++i) {
      std::tuple<error_code, permit> result;
      const auto start = [&](auto handler) { places.async_acquire(std::move(handler)); };
      co_await canigo::detail::park_here(result, stop.slot(), start);
      ends.push_back(std::get<error_code>(result));
      held = std::move(std::get<permit>(result));
    }
  };
  net::co_spawn(io, wait(), net::detached);
  io.poll();
  CHECK(ends.empty());
  held.release();
  io.poll();
  CHECK(ends == std::vector<error_code>{{}});
  CHECK(held);
  stop.emit(net::cancellation_type::terminal);
  io.run();
  CHECK(ends == std::vector<error_code>{{}, net::error::operation_aborted});
  CHECK(!held);
}
