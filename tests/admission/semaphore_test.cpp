#include "canigo/semaphore.hpp"

#include "canigo/time_source.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_executor.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// A coroutine that asks, notes how that ended, holds for a while and gives back.
auto visitor(limits_run& run, semaphore& s, std::string name, request r, duration hold) {
  return [&run, &s, name, r, hold]() -> net::awaitable<void> {
    try {
      const permit p = co_await s.acquire(r);
      run.note(name);
      co_await sleep_for(hold);
    } catch (const std::system_error& e) {
      run.note(name + "=" + e.code().message());
    }
  };
}

std::string said(errc code) { return make_error_code(code).message(); }

/// What is inside, as long as it is.
struct counted {
  counted(std::uint64_t& total, std::uint64_t n) : total_{total}, n_{n} { total_ += n_; }
  ~counted() { total_ -= n_; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  std::uint64_t& total_;
  std::uint64_t n_;
};

std::size_t sum_of_ends(const queue_stats& s) {
  return s.waiting + s.granted + s.cancelled + s.timed_out + s.evicted + s.rejected + s.stopped;
}

}  // namespace

TEST_CASE("semaphore options out of range are named with value and range", "[semaphore]") {
  net::io_context io;
  const auto making = [&](const semaphore_options& o) { return refusal_of([&] { semaphore{io, o}; }); };
  CHECK(making({.permits = 0}).find("semaphore_options.permits is 0; allowed: 1 to 2^62") == 0);
  CHECK(making({.permits = (std::uint64_t{1} << 62) + 1}).find("semaphore_options.permits") == 0);
  CHECK(making({.priorities = 0}).find("semaphore_options.priorities is 0; allowed: 1 to 1024") == 0);
  CHECK(making({.priorities = 1025}).find("semaphore_options.priorities is 1025") == 0);
  CHECK(making({.queue_limit = 0}).find("semaphore_options.queue_limit is 0") == 0);
  CHECK(making({.on_overflow = overflow::wait}).find("semaphore_options.on_overflow is wait") == 0);
  CHECK(making({.on_overflow = static_cast<overflow>(4)})
            .find("semaphore_options.on_overflow is 4; allowed: reject_new, evict_oldest, evict_least_important") == 0);
  CHECK(making({.ageing = 0s}).find("semaphore_options.ageing is 0s") == 0);
  CHECK(making({.permits = std::uint64_t{1} << 62, .priorities = 1024}).empty());
  semaphore s{io, {}};
  CHECK(refusal_of([&] { s.resize(0); }).find("semaphore.resize: permits is 0") == 0);
  CHECK(s.get_executor() == io.get_executor());
}

TEST_CASE("what can't be asked for is refused at once", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 3, .priorities = 2}};
  CHECK_THROWS_WITH(s.try_acquire({.priority = 2}), Catch::Contains("request.priority is 2; allowed: 0 to 1"));
  CHECK_THROWS_WITH(s.try_acquire({.priority = -1}), Catch::Contains("request.priority is -1"));
  CHECK_THROWS_WITH(s.try_acquire({.tokens = 0}), Catch::Contains("request.tokens is 0"));
  CHECK_THROWS_WITH(s.try_acquire({.tokens = 4}), Catch::Contains("request.tokens is 4; allowed: 1 to 3"));
  const permit all = s.try_acquire({.tokens = 3}).value();
  run.go([&]() -> net::awaitable<void> {
    const auto priority = co_await outcome_of(s.acquire({.priority = 7}));
    CHECK(priority == errc::invalid_priority);
    const auto nothing = co_await outcome_of(s.acquire({.tokens = 0}));
    CHECK(nothing == errc::invalid_argument);
    const auto heavy = co_await outcome_of(s.acquire({.tokens = 4}));
    CHECK(heavy == errc::too_large);
    const auto late = co_await outcome_of(s.acquire({.deadline = run.time.now() - 1ns}));
    CHECK(late == errc::deadline_unreachable);
  });
  std::error_code by_callback;
  s.async_acquire({.tokens = 9}, [&](std::error_code ec, permit p) {
    by_callback = ec;
    CHECK_FALSE(p);
  });
  CHECK_FALSE(by_callback);
  run.time.run();
  CHECK(by_callback == errc::too_large);
  CHECK(s.stats().rejected == 9);
  CHECK(s.stats().held == 3);
}

TEST_CASE("never more than the permits are out, and never a free one beside a waiter", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 8, .priorities = 3}};
  int inside = 0;
  int peak = 0;
  for (int i = 0; i < 200; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const permit p = co_await s.acquire({.priority = i % 3});
      peak = std::max(peak, ++inside);
      co_await sleep_for(20ms);
      --inside;
    });
  }
  run.time.run();
  CHECK(peak == 8);
  CHECK(run.ms() == 500);
  CHECK(s.stats().granted == 200);
  CHECK(s.stats().held == 0);
}

TEST_CASE("the important ones go first, and in order of arrival inside a class", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 3}};
  run.go(visitor(run, s, "first", {.priority = 2}, 10ms));
  run.time.poll();
  for (int batch = 0; batch < 2; ++batch) {
    for (int priority = 2; priority >= 0; --priority) {
      run.go(visitor(run, s, std::to_string(priority) + "b" + std::to_string(batch), {.priority = priority}, 10ms));
    }
  }
  run.time.run();
  CHECK(run.log == log_lines{"first@0", "0b0@10", "0b1@20", "1b0@30", "1b1@40", "2b0@50", "2b1@60"});
}

TEST_CASE("a heavy request is not overtaken inside its class, but by a more important one", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4, .priorities = 2}};
  run.go(visitor(run, s, "a", {.priority = 1, .tokens = 3}, 10ms));
  run.time.poll();
  run.go(visitor(run, s, "heavy", {.priority = 1, .tokens = 4}, 10ms));
  run.go(visitor(run, s, "light", {.priority = 1}, 10ms));
  run.go(visitor(run, s, "important", {.priority = 0}, 15ms));
  run.time.run();
  CHECK(run.log == log_lines{"a@0", "important@0", "heavy@15", "light@25"});
}

TEST_CASE("try_acquire overtakes nobody", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2, .priorities = 2}};
  const permit one = s.try_acquire().value();
  run.go(visitor(run, s, "heavy", {.priority = 1, .tokens = 2}, 0s));
  run.time.poll();
  CHECK_FALSE(s.try_acquire());
  CHECK(s.stats().rejected == 1);
}

TEST_CASE("a cancelled waiter takes no permit, and who waits behind goes in the same instant", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4}};
  permit three = s.try_acquire({.tokens = 3}).value();
  net::cancellation_signal signal;
  std::error_code ended;
  const auto type =
      GENERATE(net::cancellation_type::terminal, net::cancellation_type::partial, net::cancellation_type::total);
  run.go(
      [&]() -> net::awaitable<void> {
        co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
        const permit p = co_await s.acquire({.tokens = 2});
      },
      signal, ended);
  run.time.poll();
  run.go(visitor(run, s, "light", {}, 0s));
  run.time.run_for(5ms);
  CHECK(run.log.empty());
  signal.emit(type);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.log == log_lines{"light@5"});
  CHECK(s.stats().cancelled == 1);
  CHECK(s.stats().held == 3);
}

TEST_CASE("a permit granted to one that is cancelled before it learns of it is not lost", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  permit p = s.try_acquire().value();
  net::cancellation_signal signal;
  std::error_code ended = net::error::would_block;
  run.go([&]() -> net::awaitable<void> { const permit mine = co_await s.acquire(); }, signal, ended);
  run.time.poll();
  p.release();
  signal.emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK_FALSE(ended);
  CHECK(s.stats().held == 0);
  CHECK(s.stats().granted == 2);
}

TEST_CASE("a deadline ends the wait to the nanosecond, and lets who waits behind go", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  const permit p = s.try_acquire().value();
  run.go([&]() -> net::awaitable<void> {
    const auto code = co_await outcome_of(s.acquire({.tokens = 2, .deadline = run.time.now() + 30ms}));
    CHECK(code == errc::timed_out);
    run.note("late");
  });
  run.time.poll();
  run.go(visitor(run, s, "light", {}, 0s));
  run.time.run();
  CHECK(run.log == log_lines{"late@30", "light@30"});
  CHECK(s.stats().timed_out == 1);
}

TEST_CASE("resize revokes nothing, and lets nobody in until enough have left", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4}};
  std::list<permit> held;
  for (int i = 0; i < 4; ++i) held.push_back(s.try_acquire().value());
  run.go(visitor(run, s, "x", {}, 0s));
  run.time.poll();
  s.resize(2);
  CHECK(s.stats().held == 4);
  CHECK(s.stats().capacity == 2);
  for (int out = 4; out > 2; --out) {
    held.pop_front();
    run.time.poll();
    CHECK(run.log.empty());
  }
  held.pop_front();
  run.time.poll();
  CHECK(run.log == log_lines{"x@0"});
}

TEST_CASE("resize to more lets the waiting in at once", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  const permit p = s.try_acquire().value();
  for (const char* name : {"a", "b", "c"}) run.go(visitor(run, s, name, {}, 10ms));
  run.time.run_for(3ms);
  s.resize(3);
  run.time.run();
  CHECK(run.log == log_lines{"a@3", "b@3", "c@13"});
}

TEST_CASE("one that has become too heavy learns that at once, wherever it stands", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4}};
  run.go(visitor(run, s, "a", {.tokens = 4}, 10ms));
  run.time.poll();
  run.go(visitor(run, s, "b", {.tokens = 2}, 10ms));
  run.go(visitor(run, s, "heavy", {.tokens = 3}, 10ms));
  run.go(visitor(run, s, "c", {.tokens = 1}, 10ms));
  run.time.poll();
  s.resize(2);
  run.time.run();
  CHECK(run.log == log_lines{"a@0", "heavy=" + said(errc::too_large) + "@0", "b@10", "c@20"});
}

TEST_CASE("one that has become too heavy learns that at once, also where waiters rise with age", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4, .priorities = 2, .ageing = 1ms}};
  run.go(visitor(run, s, "a", {.tokens = 4}, 1h));
  run.time.poll();
  run.go(visitor(run, s, "first", {.priority = 0}, 10ms));
  run.go(visitor(run, s, "heavy", {.priority = 1, .tokens = 3}, 10ms));
  run.time.run_for(100ms);
  s.resize(2);
  run.time.run_for(1ms);
  CHECK(run.log == log_lines{"a@0", "heavy=" + said(errc::too_large) + "@100"});
}

TEST_CASE("a full queue refuses, or makes room as it was told", "[semaphore]") {
  limits_run run;
  const auto full = [&](overflow o) {
    auto s = std::make_unique<semaphore>(
        run.io, semaphore_options{.permits = 1, .priorities = 3, .queue_limit = 2, .on_overflow = o});
    auto p = std::make_shared<permit>(s->try_acquire().value());
    run.go(visitor(run, *s, "old", {.priority = 1}, 0s));
    run.go(visitor(run, *s, "young", {.priority = 2}, 0s));
    run.time.poll();
    return std::pair{std::move(s), std::move(p)};
  };
  SECTION("reject_new") {
    const auto [s, p] = full(overflow::reject_new);
    run.go(visitor(run, *s, "new", {.priority = 0}, 0s));
    run.time.poll();
    CHECK(run.log == log_lines{"new=" + said(errc::queue_full) + "@0"});
    p->release();
    run.time.run();
    CHECK(s->stats().rejected == 1);
  }
  SECTION("evict_oldest") {
    const auto [s, p] = full(overflow::evict_oldest);
    run.go(visitor(run, *s, "new", {.priority = 2}, 0s));
    run.time.poll();
    CHECK(run.log == log_lines{"old=" + said(errc::evicted) + "@0"});
    p->release();
    run.time.run();
    CHECK(s->stats().evicted == 1);
  }
  SECTION("evict_least_important") {
    const auto [s, p] = full(overflow::evict_least_important);
    run.go(visitor(run, *s, "same", {.priority = 2}, 0s));
    run.go(visitor(run, *s, "better", {.priority = 1}, 0s));
    run.time.poll();
    CHECK(run.log == log_lines{"same=" + said(errc::queue_full) + "@0", "young=" + said(errc::evicted) + "@0"});
    p->release();
    run.time.run();
  }
}

TEST_CASE("one that rises with age goes at the very instant at which it is first", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 4, .priorities = 2, .ageing = 100ms}};
  const permit three = s.try_acquire({.tokens = 3}).value();
  run.go(visitor(run, s, "light", {.priority = 1}, 0s));
  run.time.poll();
  CHECK(run.log == log_lines{"light@0"});
  run.log.clear();

  // The heavy one can't go; the light one behind it could, once it counts for as much and came earlier.
  permit fourth = s.try_acquire().value();
  run.go(visitor(run, s, "light", {.priority = 1}, 0s));
  run.time.run_for(10ms);
  run.go(visitor(run, s, "heavy", {.priority = 0, .tokens = 4}, 0s));
  run.time.run_for(10ms);
  fourth.release();
  run.time.run_for(79ms);
  CHECK(run.log.empty());
  run.time.run_for(1ms);
  CHECK(run.log == log_lines{"light@100"});
}

TEST_CASE("with ageing nobody waits much longer than if it had arrived first class", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 3, .ageing = 100ms}};
  for (int i = 0; i < 100; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      co_await sleep_for(i * 5ms);
      const permit p = co_await s.acquire();
      co_await sleep_for(10ms);
    });
  }
  run.time.run_for(1ms);
  run.go(visitor(run, s, "low", {.priority = 2}, 0s));
  run.time.run();
  REQUIRE(run.log.size() == 1);
  CHECK(run.log == log_lines{"low@210"});
}

TEST_CASE("a pause lets nobody in until it ends", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  s.pause();
  run.go(visitor(run, s, "a", {}, 0s));
  run.time.run_for(10ms);
  CHECK_FALSE(s.try_acquire());
  s.resume();
  run.time.poll();
  CHECK(run.log == log_lines{"a@10"});

  s.pause_until(run.time.now() + 20ms);
  run.go([&]() -> net::awaitable<void> {
    const auto code = co_await outcome_of(s.acquire({.deadline = run.time.now() + 19ms}));
    CHECK(code == errc::deadline_unreachable);
    run.note("unreachable");
  });
  run.go(visitor(run, s, "b", {.deadline = run.time.now() + 20ms}, 0s));
  run.time.run();
  CHECK(run.log == log_lines{"a@10", "unreachable@10", "b@30"});
}

TEST_CASE("a pause that is over is over for those who do not wait, too", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  s.pause_until(run.time.now() + 20ms);
  CHECK_FALSE(s.try_acquire());
  run.time.run_for(20ms);
  CHECK(s.try_acquire());
  int turns = 0;
  net::post(run.io, [&] { ++turns; });
  run.go([&]() -> net::awaitable<void> {
    const permit p = co_await s.acquire();
    CHECK(turns == 1);
  });
  run.time.run();
}

TEST_CASE("stop ends all that wait and all that come, once", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 4}};
  const permit p = s.try_acquire().value();
  int stopped = 0;
  for (int i = 0; i < 1000; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const auto code = co_await outcome_of(s.acquire({.priority = i % 4}));
      if (code == errc::stopped) ++stopped;
    });
  }
  run.time.poll();
  CHECK(s.stats().waiting == 1000);
  s.stop();
  s.stop();
  run.time.poll();
  CHECK(stopped == 1000);
  CHECK_FALSE(s.try_acquire());
  run.go([&]() -> net::awaitable<void> {
    const auto code = co_await outcome_of(s.acquire());
    CHECK(code == errc::stopped);
  });
  run.time.run();
  CHECK(s.stats().stopped == 1002);
}

TEST_CASE("an acquire by token needs neither a token nor a request", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  STATIC_REQUIRE(std::is_same_v<semaphore::executor_type, decltype(s.get_executor())>);
  run.go([&]() -> net::awaitable<void> {
    const permit one = co_await s.async_acquire();
    const permit two = co_await s.async_acquire({.tokens = 1});
    CHECK(s.stats().held == 2);
  });
  run.time.run();
  permit taken;
  s.async_acquire([&](std::error_code, permit p) { taken = std::move(p); });
  const request all{.tokens = 1};
  std::uint64_t more = 0;
  s.async_acquire(all, [&](std::error_code, permit p) { more = p.held(); });
  run.time.run();
  CHECK(taken.held() == 1);
  CHECK(more == 1);
}

TEST_CASE("a semaphore destroyed with waiters and permits out leaves nothing", "[semaphore]") {
  limits_run run;
  auto s = std::make_unique<semaphore>(run.io, semaphore_options{.permits = 2});
  const permit p = s->try_acquire().value();
  permit given = s->try_acquire().value();
  int granted = 0;
  int stopped = 0;
  for (int i = 0; i < 10; ++i) {
    run.go([&, sem = s.get()]() -> net::awaitable<void> {
      try {
        const permit mine = co_await sem->acquire();
        ++granted;
        co_await sleep_for(1s);
      } catch (const std::system_error& e) {
        if (e.code() == errc::stopped) ++stopped;
      }
    });
  }
  run.time.poll();
  given.release();  // to one who has not heard of it when the semaphore goes
  s.reset();
  run.time.run();
  CHECK(granted == 1);
  CHECK(stopped == 9);
}

TEST_CASE("a semaphore in the frame that waits for it goes with it", "[semaphore]") {
  auto run = std::make_unique<limits_run>();
  run->go([&]() -> net::awaitable<void> {
    semaphore s{run->io, {.permits = 1}};
    const permit p = co_await s.acquire();
    const permit never = co_await s.acquire();
  });
  run->time.poll();
  run.reset();
}

TEST_CASE("the context may go first, with permits in frames, in delivery and queued", "[semaphore]") {
  permit out;
  {
    auto run = std::make_unique<limits_run>();
    semaphore s{run->io, {.permits = 2}};
    out = s.try_acquire().value();
    permit second = s.try_acquire().value();
    for (int i = 0; i < 3; ++i) {
      run->go([&]() -> net::awaitable<void> {
        const permit mine = co_await s.acquire();
        co_await sleep_for(1h);
      });
    }
    run->time.poll();
    s.async_acquire({}, [](std::error_code, permit) { FAIL("called after its context"); });
    run->time.poll();
    second.release();
    run->time.poll();
    out.release();
    out = permit{};
    run.reset();
    CHECK(s.stats().held == 0);
    CHECK(s.stats().waiting == 0);
    s.resize(7);
    s.pause();
    s.resume();
    s.stop();
    CHECK_FALSE(s.try_acquire());
  }
}

TEST_CASE("a permit that is in delivery when all goes is given back", "[semaphore]") {
  const bool semaphore_first = GENERATE(true, false);
  auto run = std::make_unique<limits_run>();
  auto s = std::make_unique<semaphore>(run->io, semaphore_options{.permits = 1});
  permit p = s->try_acquire().value();
  s->async_acquire({}, net::bind_executor(net::make_strand(run->io),
                                          [](std::error_code, permit) { FAIL("called after its context"); }));
  s->async_acquire({}, [](std::error_code, permit) { FAIL("called after its context"); });
  run->time.poll();
  p.release();
  if (semaphore_first) {
    s.reset();
    run.reset();
  } else {
    run.reset();
    CHECK(s->stats().held == 0);
  }
}

TEST_CASE("handlers are called on their own executor, and never from inside", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  net::strand<net::io_context::executor_type> strand{run.io.get_executor()};
  bool called = false;
  s.async_acquire({}, net::bind_executor(strand, [&](std::error_code ec, permit p) {
                    CHECK_FALSE(ec);
                    CHECK(p.held() == 1);
                    CHECK(strand.running_in_this_thread());
                    called = true;
                  }));
  CHECK_FALSE(called);
  run.time.poll();
  CHECK(called);
}

TEST_CASE("any completion token does", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 2}};
  auto future = s.async_acquire({.tokens = 2}, net::use_future);
  struct move_only {
    std::unique_ptr<int> calls;
    semaphore* s;
    void operator()(std::error_code ec, permit p) const {
      CHECK_FALSE(ec);
      CHECK(p.held() == 1);
      CHECK(s->stats().held == 1);
    }
  };
  s.async_acquire({}, move_only{std::make_unique<int>(0), &s});
  run.time.run();
  CHECK(s.stats().granted == 1);
  future.get().release();
  run.time.run();
  CHECK(s.stats().granted == 2);
  run.go([&]() -> net::awaitable<void> {
    const permit p = co_await s.async_acquire({.tokens = 2}, net::use_awaitable);
    CHECK(p.held() == 2);
  });
  run.time.run();
  CHECK(s.stats().held == 0);
}

TEST_CASE("a loop of granted acquires lets others run every 128", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  int others = 0;
  std::function<void()> other = [&] {
    ++others;
    if (others < 100) net::post(run.io, other);
  };
  run.go([&]() -> net::awaitable<void> {
    net::post(run.io, other);
    for (int i = 0; i < 1290; ++i) {
      const permit p = co_await s.acquire();
    }
    CHECK(others >= 10);
    CHECK(others < 20);
  });
  run.time.run();
}

TEST_CASE("once the last waiter is gone, a free permit needs no turn of the loop again", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1}};
  permit held = s.try_acquire().value();
  std::vector<std::string> log;
  run.go([&]() -> net::awaitable<void> {
    const permit p = co_await s.acquire();
    log.push_back("waited");
  });
  run.go(visitor(run, s, "cancelled by its deadline", {.deadline = run.time.now() + 1s}, 0s));
  run.time.run_for(2s);
  held.release();
  run.time.run();
  run.go([&]() -> net::awaitable<void> {
    net::post(run.io, [&] { log.push_back("posted"); });
    const permit p = co_await s.acquire();
    log.push_back("granted");
  });
  run.time.run();
  CHECK(log == std::vector<std::string>{"waited", "granted", "posted"});
}

TEST_CASE("a coroutine of another executor keeps its loop running while it waits, and goes on there", "[semaphore]") {
  using executor = net::io_context::executor_type;
  net::io_context home;
  net::io_context own;
  semaphore s{home, {.permits = 1}};
  permit held = s.try_acquire().value();
  bool granted = false;
  net::co_spawn(
      own,
      [&]() -> net::awaitable<void, executor> {
        const permit p = co_await s.async_acquire({}, net::use_awaitable_t<executor>{});
        CHECK(own.get_executor().running_in_this_thread());
        granted = true;
      },
      net::detached);
  own.poll();
  CHECK_FALSE(own.stopped());
  held.release();
  home.poll();
  CHECK_FALSE(granted);
  own.run();
  CHECK(granted);
}

TEST_CASE("a handler may acquire, release and destroy", "[semaphore]") {
  limits_run run;
  auto s = std::make_unique<semaphore>(run.io, semaphore_options{.permits = 1});
  std::vector<int> order;
  s->async_acquire({}, [&](std::error_code, permit p) {
    order.push_back(1);
    s->async_acquire({}, [&](std::error_code ec, permit q) {
      order.push_back(2);
      CHECK_FALSE(ec);
      s->async_acquire({}, [&](std::error_code last, permit) {
        order.push_back(3);
        CHECK(last == errc::stopped);
      });
      s.reset();
      q.release();
    });
    p.release();
  });
  run.time.run();
  CHECK(order == std::vector<int>{1, 2, 3});
}

TEST_CASE("nobody waiting: nothing is armed", "[semaphore]") {
  limits_run run;
  semaphore s{run.io, {.permits = 1, .priorities = 2, .ageing = 1s}};
  auto& time = time_source::of(run.io.get_executor());
  permit p = s.try_acquire().value();
  CHECK(time.idle());
  run.go([&]() -> net::awaitable<void> { const permit mine = co_await s.acquire({.deadline = run.time.now() + 1h}); });
  run.time.poll();
  CHECK_FALSE(time.idle());
  p.release();
  run.time.poll();
  CHECK(time.idle());
}

TEST_CASE("the counts add up at every step of a random life", "[semaphore]") {
  const auto seed = GENERATE(1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u);
  CAPTURE(seed);
  std::mt19937 random{seed};
  const auto any = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>{0, n - 1}(random); };
  limits_run run;
  semaphore s{run.io,
              {.permits = 8,
               .priorities = 3,
               .queue_limit = 40,
               .on_overflow = any(2) != 0 ? overflow::evict_least_important : overflow::evict_oldest,
               .ageing = any(2) != 0 ? duration{50ms} : duration::max()}};
  std::uint64_t capacity = 8;
  std::uint64_t most = 8;  // allowed to be out: the capacity, and after shrinking what was out then
  std::uint64_t inside = 0;
  std::size_t ended = 0;
  std::list<net::cancellation_signal> signals;
  std::list<std::error_code> codes;
  constexpr int steps = 2000;
  std::size_t started = 0;
  for (int step = 0; step < steps; ++step) {
    if (any(4) != 0) {
      const request r{
          .priority = static_cast<int>(any(3)),
          .tokens = 1 + any(4),
          .deadline = any(3) == 0 ? run.time.now() + std::chrono::milliseconds{any(30)} : time_point::max()};
      const duration hold = std::chrono::milliseconds{any(20)};
      run.go(
          [&, r, hold]() -> net::awaitable<void> {
            ++started;
            try {
              permit p = co_await s.acquire(r);
              const counted all{inside, p.held() - 1};
              {
                const counted one{inside, 1};
                CHECK(inside <= most);
                permit part = p.split(1);
                co_await sleep_for(hold / 2);
              }
              co_await sleep_for(hold);
            } catch (const std::system_error&) {
            }
            ++ended;
          },
          signals.emplace_back(), codes.emplace_back());
    }
    if (any(10) == 0 && !signals.empty()) {
      auto victim = signals.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(any(signals.size())));
      victim->emit(net::cancellation_type::terminal);
    }
    if (any(50) == 0) {
      capacity = 4 + any(8);
      most = std::max(most, capacity);
      s.resize(capacity);
    }
    run.time.run_for(std::chrono::milliseconds{any(3)});
    const auto stats = s.stats();
    most = std::max(capacity, stats.held);
    CHECK(stats.held <= std::max<std::uint64_t>(most, 12));
    CHECK(stats.requested == sum_of_ends(stats));
    CHECK(stats.capacity == capacity);
    if (stats.waiting > 0) CHECK(stats.held + 4 > stats.capacity);
  }
  run.time.run();
  CHECK(s.stats().waiting == 0);
  CHECK(s.stats().held == 0);
  CHECK(ended == started);
}

TEST_CASE("threads acquire, release, cancel and resize at once", "[semaphore][threads]") {
  net::io_context io;
  semaphore s{io, {.permits = 3, .priorities = 2}};
  std::atomic<int> inside{0};
  std::atomic<int> peak{0};
  std::atomic<int> ends{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> leaving{0};  // threads that give a permit back, and may be in the middle of a post to the context
  constexpr int tasks = 64;
  constexpr int rounds = 300;
  for (int t = 0; t < tasks; ++t) {
    net::co_spawn(
        net::make_strand(io),
        [&, t]() -> net::awaitable<void> {
          for (int i = 0; i < rounds; ++i) {
            try {
              const auto soon = (t + i) % 5 == 0 ? std::chrono::steady_clock::now() + 50us : time_point::max();
              permit p = co_await s.acquire({.priority = i % 2, .deadline = soon});
              const int now = ++inside;
              int seen = peak;
              while (now > seen && !peak.compare_exchange_weak(seen, now)) {
              }
              if (i % 3 == 0) co_await net::post(net::use_awaitable);
              --inside;
              if (i % 7 == 0) {
                ++leaving;
                std::thread{[&leaving, q = std::move(p)]() mutable {
                  q.release();
                  --leaving;
                }}.detach();
              }
            } catch (const std::system_error& e) {
              ++cancelled;
            }
            ++ends;
          }
        },
        net::detached);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { io.run(); });
  for (int i = 0; i < 20; ++i) {
    s.resize(1 + static_cast<std::uint64_t>(i) % 3);
    (void)s.stats();
    std::this_thread::yield();
  }
  s.resize(3);
  for (auto& t : threads) t.join();
  CHECK(ends == tasks * rounds);
  CHECK(peak <= 3);
  while (leaving != 0) std::this_thread::yield();
  CHECK(s.stats().held == 0);
  const auto stats = s.stats();
  CHECK(stats.waiting == 0);
  CHECK(stats.granted + static_cast<std::uint64_t>(cancelled) == tasks * rounds);
}
