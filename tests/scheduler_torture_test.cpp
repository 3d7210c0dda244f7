// Without memory at every point: whichever allocation fails, everybody is told how it ended, no token is lost and
// nothing leaks. A program of its own, as it replaces the heap.

#include "canigo/cancel.hpp"
#include "canigo/cancel_after.hpp"
#include "canigo/gate.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/testing/virtual_time.hpp"
#include "canigo/timeout.hpp"
#include "canigo/wait_group.hpp"

#include "allocations.hpp"
#include "catch.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/bind_executor.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_future.hpp>

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace allocations;
using namespace canigo;
using namespace std::chrono_literals;

namespace {

// Counts the ends of a caller: its frame or its handler goes exactly once, called or not.
class ticket {
 public:
  explicit ticket(int& ends) noexcept : ends_{&ends} {}
  ticket(ticket&& other) noexcept : ends_{std::exchange(other.ends_, nullptr)} {}
  ticket& operator=(ticket&&) = delete;
  ~ticket() {
    if (ends_ != nullptr) ++*ends_;
  }

 private:
  int* ends_;
};

/// What a scenario acts on. Coroutines are started before memory becomes scarce, where Asio's own co_spawn would end
/// the program; what they, and all that is called from then on, need of the heap fails in turn.
struct stage {
  std::unique_ptr<net::io_context> context = std::make_unique<net::io_context>(1);
  net::io_context& io = *context;
  testing::virtual_time time{io};
  int started = 0;
  int ended = 0;
  int called_twice = 0;
  int dropped = 0;  // handlers that were destroyed uncalled
  int refused = 0;  // steps that threw
  bool spares_aligned = false;
  bool has_failed = false;
  std::string wrong = {};

  /// A coroutine that sleeps first, so that what it does falls into the time without memory.
  template <class Body>
  void spawn(Body body, net::cancellation_slot slot = {}) {
    ++started;
    net::co_spawn(io, play(std::move(body), ticket{ended}), net::bind_cancellation_slot(slot, net::detached));
    time.poll();
  }

  /// A handler for anything that completes with an error first; notes how often it is called.
  auto handler() {
    ++started;
    struct witness {
      witness(stage& s) noexcept : of{&s} {}
      witness(witness&& other) noexcept : of{std::exchange(other.of, nullptr)}, called{other.called} {}
      witness& operator=(witness&&) = delete;
      ~witness() {
        if (of == nullptr) return;
        ++of->ended;
        of->dropped += called == 0 ? 1 : 0;
        of->called_twice += called > 1 ? 1 : 0;
      }
      stage* of;
      int called = 0;
    };
    return [w = witness{*this}](std::error_code, auto&&...) mutable { ++w.called; };
  }

  /// Takes the steps with the k-th allocation failing. A step that throws is one that was not taken.
  template <class... Steps>
  void without_memory(std::int64_t k, Steps... steps) {
    const failing f{k, spares_aligned};
    ((refused += attempt(steps) ? 0 : 1), ...);
    has_failed = f.has_failed();
  }

  void expect(bool ok, const char* what) {
    if (!ok && wrong.empty()) wrong = what;
  }

  void expect_all_ended() {
    time.run();
    expect(ended == started, "somebody waits for ever");
    expect(called_twice == 0, "somebody was called twice");
    expect(dropped <= refused, "somebody was not called");
    expect(time_source::of(io.get_executor()).idle(), "something is left armed");
  }

  void expect_conserved(const queue_stats& s) {
    expect(s.waiting == 0, "somebody waits");
    expect(s.requested == s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped,
           "the counts do not add up");
  }

  /// All tokens are where they belong: after a long time the bucket is exactly full.
  void expect_full(scheduler& s, std::uint64_t burst) {
    expect_conserved(s.stats());
    time.run_for(1h);
    expect(s.try_acquire({.tokens = burst}), "tokens are lost");
    expect(!s.try_acquire(), "there are too many tokens");
  }

 private:
  template <class Body>
  static net::awaitable<void> play(Body body, ticket) {
    co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
    co_await sleep_for(1ms);
    try {
      co_await body();
    } catch (const std::exception&) {
    }
  }
};

const scheduler_options two_classes{.rate = rate::per_second(100), .burst = 4, .priorities = 2};

// ---- scenarios: in each the k-th allocation fails ----

void waiters_are_granted_in_turn(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  for (int i = 0; i < 6; ++i) {
    t.spawn([&s, i]() -> net::awaitable<void> {
      co_await s.acquire({.priority = i % 2, .tokens = i == 3 ? 3u : 1u});
      co_await s.acquire(i % 2);
    });
  }
  t.without_memory(k, [&] { t.time.run_for(2s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void callbacks_meet_every_fate(stage& t, std::int64_t k) {
  scheduler s{t.io, {.rate = rate::per_second(100), .burst = 4, .priorities = 2, .queue_limit = 4}};
  const auto ask = [&](request r) { return [&t, &s, r] { s.async_acquire(r, t.handler()); }; };
  t.without_memory(k, ask({}), ask({.priority = 1}), ask({}), ask({.deadline = t.time.now() + 100ms}),
                   ask({}) /* queue_full */, ask({.deadline = t.time.now()}), ask({.priority = 7}), ask({.tokens = 5}),
                   [&] { t.time.run_for(200ms); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void deadlines_pass(stage& t, std::int64_t k) {
  scheduler s{t.io, {.rate = rate::per_second(100), .burst = 8, .initial_tokens = 8, .priorities = 2}};
  s.pause();
  const time_point at = t.time.now() + 10ms;
  for (int i = 0; i < 4; ++i) t.spawn([&s, at, i] { return s.acquire({.deadline = at + i % 2 * 1ms}); });
  t.without_memory(k, [&] { s.async_acquire({.deadline = at}, t.handler()); }, [&] { t.time.run_for(100ms); });
  s.resume();
  t.expect_all_ended();
  t.expect_full(s, 8);
}

template <overflow Policy>
void a_full_queue(stage& t, std::int64_t k) {
  scheduler s{t.io,
              {.rate = rate::per_second(100), .burst = 2, .priorities = 2, .queue_limit = 2, .on_overflow = Policy}};
  for (int i = 0; i < 3; ++i) t.spawn([&s, i] { return s.acquire(1 - i % 2); });
  const auto ask = [&](int priority) {
    return [&, priority] { s.async_acquire({.priority = priority}, t.handler()); };
  };
  t.without_memory(k, [&] { t.time.run_for(1ms); }, ask(0), ask(1), ask(0), [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect_full(s, 2);
}

void limits_change(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  for (int i = 0; i < 5; ++i) t.spawn([&s, i] { return s.acquire({.tokens = 1 + static_cast<std::uint64_t>(i % 4)}); });
  t.without_memory(
      k, [&] { t.time.run_for(2ms); }, [&] { s.set_rate(rate::per_hour(1)); }, [&] { s.refund(2); },
      [&] { t.time.poll(); }, [&] { s.pause(); }, [&] { s.set_burst(3); }, [&] { s.charge(5); },
      [&] { s.set_rate(rate::per_second(1000)); }, [&] { s.pause_until(t.time.now() + 5ms); },
      [&] { t.time.run_for(100ms); });
  t.expect_all_ended();
  t.expect_full(s, 3);
}

void cancelled_while_they_wait(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  std::array<net::cancellation_signal, 4> signals;
  for (auto& signal : signals) {
    t.spawn([&s] { return s.acquire({.deadline = time_point{1h}}); }, signal.slot());
  }
  net::cancellation_signal of_callback;
  t.without_memory(
      k, [&] { t.time.run_for(1ms); },
      [&] { s.async_acquire({}, net::bind_cancellation_slot(of_callback.slot(), t.handler())); },
      [&] { of_callback.emit(net::cancellation_type::partial); },
      [&] { signals[0].emit(net::cancellation_type::terminal); },
      [&] { signals[2].emit(net::cancellation_type::total); }, [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect_full(s, 4);
}

void stopped_while_some_wait_and_some_are_told(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  for (int i = 0; i < 4; ++i) t.spawn([&s, i] { return s.acquire({.deadline = time_point{1h * (i + 1)}}); });
  t.time.run_for(1ms);
  t.without_memory(
      k, [&] { s.async_acquire({}, t.handler()); }, [&] { s.refund(2); }, [&] { s.stop(); },
      [&] { s.async_acquire({}, t.handler()); }, [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void destroyed_under_its_waiters(stage& t, std::int64_t k) {
  std::optional<scheduler> s{std::in_place, t.io, two_classes};
  for (int i = 0; i < 4; ++i) t.spawn([&s] { return s->acquire({.deadline = time_point{1h}}); });
  t.time.run_for(1ms);
  t.without_memory(
      k, [&] { s->async_acquire({}, t.handler()); }, [&] { s->refund(2); }, [&] { s.reset(); },
      [&] { t.time.run_for(1s); });
  t.expect_all_ended();
}

void the_context_goes_first(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  semaphore m{t.io, {.permits = 1}};
  const auto hold = [&m]() -> net::awaitable<void> {
    const permit p = co_await m.acquire();
    co_await sleep_for(1h);
  };
  for (int i = 0; i < 4; ++i) t.spawn([&s, i] { return s.acquire({.deadline = time_point{1h + i * 1s}}); });
  for (int i = 0; i < 2; ++i) t.spawn(hold);
  t.time.run_for(2ms);
  t.without_memory(k, [&] { s.refund(2); }, [&] { s.async_acquire({}, t.handler()); });
  t.context.reset();  // with memory: a suspended coroutine of Asio's that is destroyed needs some
  s.stop();
  t.expect(t.ended == t.started, "somebody was not destroyed");
  t.expect(m.stats().held == 0, "a permit is lost");
}

void futures(stage& t, std::int64_t k) {
  scheduler s{t.io, two_classes};
  std::vector<std::future<void>> all;
  all.reserve(3);
  // By itself use_future completes on a thread of Asio's. Granted ones only: from 1.38 on, Asio makes the exception of
  // a future in a function that must not throw.
  const auto ask = [&](request r) {
    return [&, r] { all.push_back(s.async_acquire(r, net::bind_executor(t.io, net::use_future))); };
  };
  t.without_memory(k, ask({}), ask({.deadline = time_point{1h}}), [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  for (auto& f : all) t.expect(f.wait_for(0s) == std::future_status::ready, "a future is never ready");
  t.expect_full(s, 4);
}

void callers_on_another_context(stage& t, std::int64_t k) {
  net::io_context elsewhere{1};
  scheduler s{t.io, two_classes};
  const auto ask = [&](request r) {
    return [&, r] { s.async_acquire(r, net::bind_executor(elsewhere, t.handler())); };
  };
  const auto both_run = [&] {
    for (int i = 0; i < 20; ++i) {
      t.time.run_for(10ms);
      elsewhere.restart();
      elsewhere.poll();
    }
  };
  t.without_memory(
      k, ask({}), ask({.deadline = time_point{20ms}}), ask({.priority = 1}), [&] { s.refund(2); }, both_run);
  both_run();
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void an_executor_that_fails_to_post(stage& t, std::int64_t k) {
  // No plain executor of an io_context: what is posted to it is wrapped first, which takes memory each time.
  const net::any_io_executor wrapping{net::require(t.io.get_executor(), net::execution::outstanding_work.tracked)};
  scheduler s{wrapping, two_classes};
  const auto ask = [&](request r) { return [&, r] { s.async_acquire(r, t.handler()); }; };
  t.without_memory(
      k, ask({}), ask({.priority = 1}), ask({.deadline = time_point{1ms}}), ask({}), [&] { s.refund(2); },
      [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect_conserved(s.stats());
}

void permits_of_a_semaphore(stage& t, std::int64_t k) {
  semaphore m{t.io, {.permits = 3, .priorities = 2}};
  for (int i = 0; i < 6; ++i) {
    t.spawn([&m, i]() -> net::awaitable<void> {
      permit p = co_await m.acquire({.priority = i % 2, .tokens = 1 + static_cast<std::uint64_t>(i % 3)});
      co_await sleep_for(2ms);
      permit part = p.split(1);
      p.release();
      co_await sleep_for(1ms);
    });
  }
  t.without_memory(
      k, [&] { t.time.run_for(3ms); }, [&] { m.async_acquire({.deadline = time_point{8ms}}, t.handler()); },
      [&] { m.resize(2); }, [&] { t.time.run_for(100ms); });
  t.expect_all_ended();
  t.expect_conserved(m.stats());
  t.expect(m.stats().held == 0, "a permit is lost");
}

void several_limits_at_once(stage& t, std::int64_t k) {
  limiter l{t.io, {.rates = {{rate::per_second(100), 4}, {rate::per_second(50), 8}}, .concurrency = 2}};
  for (int i = 0; i < 5; ++i) {
    t.spawn([&l]() -> net::awaitable<void> {
      permit p = co_await l.acquire({.tokens = 2, .deadline = time_point{10s}});
      p.settle(3);
      co_await sleep_for(3ms);
    });
  }
  t.without_memory(k, [&] { l.async_acquire({}, t.handler()); }, [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect_conserved(l.stats());
  t.expect(l.stats().held == 0, "a permit is lost");
  t.time.run_for(1h);
  t.expect(l.stats().tokens == std::vector<std::int64_t>{4, 8}, "tokens are lost");
}

void a_gate_and_a_group_that_are_waited_for(stage& t, std::int64_t k) {
  gate g{t.io};
  wait_group w{t.io};
  permit inside = g.enter();
  w.add(2);
  t.spawn([&] { return g.close(); });
  t.spawn([&] { return w.wait(); });
  t.without_memory(
      k, [&] { t.time.run_for(1ms); }, [&] { g.async_close(t.handler()); }, [&] { w.async_wait(t.handler()); },
      [&] { w.done(); }, [&] { inside.release(); }, [&] { w.done(); }, [&] { t.time.run_for(1s); });
  t.expect_all_ended();
  t.expect(g.count() == 0 && w.count() == 0, "somebody is inside");
}

void sleepers(stage& t, std::int64_t k) {
  std::array<net::cancellation_signal, 2> signals;
  for (auto& signal : signals) t.spawn([] { return sleep_for(1h); }, signal.slot());
  for (int i = 0; i < 3; ++i) t.spawn([] { return sleep_until(time_point{5ms}); });
  t.without_memory(
      k, [&] { t.time.run_for(3ms); }, [&] { signals[0].emit(net::cancellation_type::terminal); },
      [&] { t.time.run_for(1s); });
  signals[1].emit(net::cancellation_type::total);
  t.expect_all_ended();
}

// What co_spawn allocates comes before: where that fails inside, Asio 1.22 ends the program. A strand of Asio's that
// can't allocate after it has taken a function never runs anything again; what it needs there is spared.
void limits_of_time_that_pass(stage& t, std::int64_t k) {
  scheduler s{t.io, {.rate = rate::per_second(100), .burst = 4, .initial_tokens = 4}};
  s.pause();
  cancel_source source;
  t.spares_aligned = true;
  t.spawn([&s] { return with_timeout(s.acquire(), 5ms); });
  t.spawn([&s] { return with_deadline(s.acquire({.deadline = time_point{100h}}), time_point{6ms}); });
  t.spawn([&s, &source] { return source.wrap(s.acquire()); });
  net::steady_timer never{t.io, time_point::max()};
  t.time.run_for(2ms);
  never.async_wait(cancel_after(5ms, t.handler()));
  t.without_memory(k, [&] { source.cancel(); }, [&] { t.time.run_for(1s); });
  source.cancel();
  t.expect_all_ended();
  s.resume();
  t.expect_full(s, 4);
}

}  // namespace

TEST_CASE("whichever allocation fails, everybody ends, no token is lost and nothing leaks", "[memory]") {
  struct {
    const char* name;
    void (*play)(stage&, std::int64_t);
    int at_least;  // points at which it fails, so that a scenario that has come to need none is noticed
  } const scenarios[] = {
      {"waiters are granted in turn", waiters_are_granted_in_turn, 1},
      {"callbacks meet every fate", callbacks_meet_every_fate, 1},
      {"deadlines pass", deadlines_pass, 1},
      {"a full queue that rejects", a_full_queue<overflow::reject_new>, 1},
      {"a full queue that evicts the oldest", a_full_queue<overflow::evict_oldest>, 1},
      {"a full queue that evicts the least important", a_full_queue<overflow::evict_least_important>, 1},
      {"limits change", limits_change, 1},
      {"cancelled while they wait", cancelled_while_they_wait, 1},
      {"stopped while some wait and some are told", stopped_while_some_wait_and_some_are_told, 1},
      {"destroyed under its waiters", destroyed_under_its_waiters, 1},
      {"the context goes first", the_context_goes_first, 1},
      {"futures", futures, 1},
      {"callers on another context", callers_on_another_context, 1},
      {"an executor that fails to post", an_executor_that_fails_to_post, 1},
      {"permits of a semaphore", permits_of_a_semaphore, 1},
      {"several limits at once", several_limits_at_once, 1},
      {"a gate and a group that are waited for", a_gate_and_a_group_that_are_waited_for, 1},
      {"sleepers", sleepers, 1},
      {"limits of time that pass", limits_of_time_that_pass, 1},
  };
  for (const auto& scenario : scenarios) {
    std::int64_t k = -1;  // at first none fails
    int kept_again = 0;
    for (bool more = true; more; ++k) {
      const std::int64_t before = live;
      {
        stage t;
        scenario.play(t, k);
        more = k < 0 || t.has_failed;
        if (!t.wrong.empty()) FAIL(scenario.name << ", allocation " << k << ": " << t.wrong);
      }
      // What is made once is made the first time.
      kept_again = live > before ? kept_again + 1 : 0;
      if (kept_again == 1) {
        --k;
        more = true;
      } else if (kept_again > 1) {
        FAIL(scenario.name << ", allocation " << k << ": " << live - before << " blocks leak");
      }
      if (k > 10'000) FAIL(scenario.name << " does not end");
    }
    INFO(scenario.name << ": " << k << " points");
    CHECK(k > scenario.at_least);
  }
}

TEST_CASE("a cancellation that fails for want of memory is to be asked for again", "[memory]") {
  stage t;
  cancel_source source;
  for (int i = 0; i < 3; ++i) t.spawn([&source] { return source.wrap(sleep_for(1000h)); });
  t.time.run_for(2ms);
  bool threw = false;
  {
    const failing f{0};  // a later one may be a strand's, which does not survive it
    try {
      source.cancel();
    } catch (const std::bad_alloc&) {
      threw = true;
    }
  }
  CHECK(threw);
  CHECK(source.cancelled());
  source.cancel();
  t.time.run();
  CHECK(t.ended == 3);
  CHECK(t.time.elapsed() == 2ms);
}

TEST_CASE("making a scheduler fails as a whole", "[memory]") {
  net::io_context io;
  scheduler first{io, two_classes};  // the context's services
  const auto points = for_every_allocation([&](std::int64_t k) {
    const std::int64_t before = live;
    bool has_failed = false;
    {
      const failing f{k};
      try {
        const scheduler s{io, two_classes};
      } catch (const std::bad_alloc&) {
      }
      has_failed = f.has_failed();
    }
    CHECK(live == before);
    return has_failed;
  });
  CHECK(points > 2);
}

TEST_CASE("statistics fail as a whole", "[memory]") {
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .initial_tokens = 1, .priorities = 5}};
  CHECK(s.try_acquire(4));
  for_every_allocation([&](std::int64_t k) {
    bool has_failed = false;
    {
      const failing f{k};
      try {
        (void)s.stats();
      } catch (const std::bad_alloc&) {
      }
      has_failed = f.has_failed();
    }
    CHECK(s.stats().classes.at(4).granted == 1);
    return has_failed;
  });
}
