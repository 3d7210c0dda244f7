#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"
#include "canigo/semaphore.hpp"
#include "canigo/with_limit.hpp"

#include "support/catch.hpp"
#include "support/fickle_executor.hpp"
#include "support/limits_run.hpp"

#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

/// Notes when it is let in, and stays for `hold`.
auto guest(limits_run& run, limiter& l, std::string name, request r = {}, duration hold = 10ms) {
  return [&run, &l, name, r, hold]() -> net::awaitable<void> {
    try {
      const permit p = co_await l.acquire(r);
      run.note(name);
      co_await sleep_for(hold);
    } catch (const std::system_error& e) {
      run.note(name + "=" + e.code().message());
    }
  };
}

/// Stays inside until its coroutine leaves or is destroyed.
struct visit {
  explicit visit(std::atomic<int>& n) : inside{n} { ++inside; }
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  ~visit() { --inside; }
  std::atomic<int>& inside;
};

limiter_options free_of_rates(const shared_cap& cap, int priorities = 1) {
  return {.share = cap, .priorities = priorities};
}

}  // namespace

TEST_CASE("shared_cap options out of range are named with value and range", "[shared_cap]") {
  const auto making = [](std::uint64_t n) { return refusal_of([=] { const shared_cap c{{.permits = n}}; }); };
  CHECK(making(0).find("shared_cap_options.permits is 0; allowed: 1 to 2^62") == 0);
  CHECK(making((std::uint64_t{1} << 62) + 1).find("shared_cap_options.permits is") == 0);
  CHECK(making(std::uint64_t{1} << 62).empty());
  shared_cap c{{.permits = 3}};
  CHECK(c.permits() == 3);
  CHECK(c.held() == 0);
  CHECK(refusal_of([&] { c.resize(0); }).find("shared_cap.resize: permits is 0; allowed: 1 to 2^62") == 0);
  CHECK(c.permits() == 3);
  const shared_cap same = std::move(c);
  c.resize(4);
  CHECK(same.permits() == 4);
}

TEST_CASE("a slow quota holds up a fast one by with_limits, and not by a shared cap", "[shared_cap]") {
  const rate slow = rate::per_second(1);
  const rate fast = rate::per_second(100);
  const auto call = []() { return sleep_for(10ms); };
  limits_run held;
  {
    semaphore slots{held.io, {.permits = 2}};
    scheduler slow_quota{held.io, {.rate = slow}};
    scheduler fast_quota{held.io, {.rate = fast}};
    for (int i = 0; i < 18; ++i) {
      held.go([&]() -> net::awaitable<void> { co_await with_limits(call(), std::tie(slots, slow_quota)); });
    }
    for (int i = 0; i < 20; ++i) {
      held.go([&, i]() -> net::awaitable<void> {
        co_await with_limits(call(), std::tie(slots, fast_quota));
        if (i == 19) held.note("done");
      });
    }
    held.time.run();
  }
  REQUIRE(held.log.size() == 1);
  CHECK(std::stol(held.log.front().substr(std::string{"done@"}.size())) >= 16'000);  // milliseconds

  limits_run run;
  shared_cap slots{{.permits = 2}};
  limiter slow_calls{run.io, {.rates = {{slow}}, .share = slots}};
  limiter fast_calls{run.io, {.rates = {{fast}}, .share = slots}};
  for (int i = 0; i < 18; ++i) {
    run.go([&]() -> net::awaitable<void> { co_await with_limit(call(), slow_calls); });
  }
  for (int i = 0; i < 20; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      co_await with_limit(call(), fast_calls);
      if (i == 19) run.note("done");
    });
  }
  run.time.run();
  CHECK(run.log == log_lines{"done@210"});
  CHECK(run.ms() == 18'010);  // and the slow ones were held up by nobody
  CHECK(slots.held() == 0);
}

TEST_CASE("never more places are out than there are, of all limiters together", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 3}};
  limiter a{run.io, {.rates = {{rate::per_second(1000), 100, 100}}, .share = cap}};
  limiter b{run.io,
            {.rates = {{rate::per_second(700), 3}, {rate::per_second(900), 5}}, .concurrency = 2, .share = cap}};
  limiter c{run.io, {.concurrency = 2, .share = cap, .priorities = 2}};
  std::map<limiter*, int> inside;
  int most = 0;
  int ends = 0;
  for (int i = 0; i < 30; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      limiter& l = i % 3 == 0 ? a : i % 3 == 1 ? b : c;
      for (int k = 0; k < 50; ++k) {
        const permit p = co_await l.acquire(&l == &c ? k % 2 : 0);
        ++inside[&l];
        most = std::max(most, inside[&a] + inside[&b] + inside[&c]);
        CHECK(inside[&b] <= 2);
        CHECK(inside[&c] <= 2);
        CHECK(cap.held() == a.stats().held + b.stats().held + c.stats().held);
        co_await sleep_for(std::chrono::microseconds{(i * 37 + k * 11) % 4000});
        --inside[&l];
        ++ends;
      }
    });
  }
  run.time.run();
  CHECK(ends == 1500);
  CHECK(most == 3);
  CHECK(cap.held() == 0);
}

TEST_CASE("a request that waits for its rate holds nothing of the cap", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter slow{run.io, {.rates = {{rate::per_second(1)}}, .share = cap}};
  limiter fast{run.io, free_of_rates(cap)};
  run.go(guest(run, slow, "slow"));
  run.time.run_for(999ms);
  CHECK(cap.held() == 0);
  CHECK(slow.why_waiting().binds == wait_reason::cause::rate);
  CHECK(fast.try_acquire());
  run.time.run();
  CHECK(run.log == log_lines{"slow@1000"});
}

TEST_CASE("a refusal by the cap takes no token, and one by a rate no place", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter a{run.io, {.rates = {{rate::per_hour(1), 5, 5}, {rate::per_hour(1), 9, 9}}, .share = cap}};
  limiter b{run.io, {.rates = {{rate::per_hour(1), 1, 0}}, .share = cap}};
  CHECK_FALSE(b.try_acquire());
  std::optional<permit> p = a.try_acquire();
  REQUIRE(p);
  CHECK_FALSE(a.try_acquire());
  CHECK(a.stats().tokens == std::vector<std::int64_t>{4, 8});
  CHECK(cap.held() == 1);
  p.reset();
  CHECK(cap.held() == 0);
  CHECK(a.try_acquire());
}

TEST_CASE("a place goes to the most important class, then in turn from limiter to limiter", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter a{run.io, free_of_rates(cap)};
  limiter b{run.io, free_of_rates(cap, 2)};
  limiter c{run.io, free_of_rates(cap, 2)};
  run.go(guest(run, a, "a0"));
  run.time.poll();
  for (const char* name : {"b1", "b2", "b3"}) run.go(guest(run, b, name, {.priority = 1}));
  for (const char* name : {"c1", "c2"}) run.go(guest(run, c, name, {.priority = 1}));
  run.time.poll();
  run.go(guest(run, a, "a1"));
  run.go(guest(run, c, "c0"));
  run.time.run();
  CHECK(run.log == log_lines{"a0@0", "a1@10", "c0@20", "b1@30", "c1@40", "b2@50", "c2@60", "b3@70"});
}

TEST_CASE("one who has aged is as important to the others as to its own", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter a{run.io, {.share = cap, .priorities = 3, .ageing = 30ms}};
  limiter b{run.io, free_of_rates(cap, 2)};
  run.go(guest(run, b, "first", {}, 70ms));
  run.time.poll();
  run.go(guest(run, a, "old", {.priority = 2}));
  run.time.run_for(35ms);
  for (const char* name : {"b0", "b1"}) run.go(guest(run, b, name, {.priority = 0}));
  run.time.run();
  // At 30 it rose to class 1, at 60 to class 0, behind those of b.
  CHECK(run.log == log_lines{"first@0", "b0@70", "old@80", "b1@90"});
}

TEST_CASE("a flood of one limiter delays another one by one place at most", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter flood{run.io, free_of_rates(cap)};
  limiter calm{run.io, free_of_rates(cap)};
  for (int i = 0; i < 1000; ++i) run.go(guest(run, flood, "flood"));
  run.time.run_for(5ms);
  run.go(guest(run, calm, "calm"));
  run.time.run();
  CHECK(run.log.size() == 1001);
  CHECK(std::find(run.log.begin(), run.log.end(), "calm@20") != run.log.end());
}

TEST_CASE("the chosen one may be gone when it is told: the place passes on in the same instant", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  auto a = std::make_unique<limiter>(run.io, free_of_rates(cap));
  limiter b{run.io, free_of_rates(cap)};
  permit out = b.try_acquire().value();
  SECTION("cancelled") {
    net::cancellation_signal signal;
    std::error_code ended;
    run.go([&]() -> net::awaitable<void> { const permit p = co_await a->acquire(); }, signal, ended);
    run.time.poll();
    run.go(guest(run, b, "b"));
    run.time.poll();
    out.release();
    CHECK(cap.held() == 1);  // on its way
    signal.emit(net::cancellation_type::terminal);
    run.time.run();
    CHECK(run.log == log_lines{"b@0"});
  }
  SECTION("late") {
    run.go(guest(run, *a, "a", {.deadline = run.time.now() + 1s}));
    run.go(guest(run, b, "b"));
    run.time.run_for(1s);
    out.release();
    run.time.run();
    CHECK(run.log == log_lines{"a=" + make_error_code(errc::timed_out).message() + "@1000", "b@1000"});
  }
  SECTION("stopped") {
    run.go(guest(run, *a, "a"));
    run.go(guest(run, b, "b"));
    run.time.poll();
    a->stop();
    out.release();
    run.time.run();
    CHECK(run.log == log_lines{"a=" + make_error_code(errc::stopped).message() + "@0", "b@0"});
  }
  SECTION("destroyed") {
    run.go(guest(run, *a, "a"));
    run.go(guest(run, b, "b"));
    run.time.poll();
    a.reset();
    out.release();
    run.time.run();
    CHECK(run.log == log_lines{"a=" + make_error_code(errc::stopped).message() + "@0", "b@0"});
  }
  SECTION("paused") {
    run.go(guest(run, *a, "a"));
    run.go(guest(run, b, "b"));
    run.time.poll();
    a->pause_until(run.time.now() + 1s);
    CHECK(a->why_waiting().binds == wait_reason::cause::paused);
    out.release();
    run.time.run();
    CHECK(run.log == log_lines{"b@0", "a@1000"});
  }
  SECTION("in debt") {
    limiter rated{run.io, {.rates = {{rate::per_second(10), 10, 10}}, .share = cap}};
    out.release();
    permit two = rated.try_acquire({.tokens = 1}).value();
    run.go(guest(run, rated, "rated"));
    run.go(guest(run, b, "b"));
    run.time.poll();
    two.settle(11);  // a token is missing now
    two.release();
    run.time.run();
    CHECK(run.log == log_lines{"b@0", "rated@200"});
  }
  out.release();
  CHECK(cap.held() == 0);
}

TEST_CASE("why_waiting names the shared cap where nothing else binds", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter a{run.io, {.rates = {{rate::per_second(1), 2, 2}}, .concurrency = 2, .share = cap}};
  limiter b{run.io, free_of_rates(cap)};
  permit out = b.try_acquire().value();
  for (const char* name : {"a", "b", "c"}) run.go(guest(run, a, name, {}, 0s));
  run.time.poll();
  CHECK(a.why_waiting().binds == wait_reason::cause::share);
  CHECK(a.why_waiting().until == time_point::max());
  CHECK(a.estimate({}) == 2s);  // a lower bound, by the rate
  CHECK(a.stats().held == 0);
  out.release();
  run.time.poll();
  CHECK(run.log == log_lines{"a@0", "b@0"});
  CHECK(a.why_waiting().binds == wait_reason::cause::rate);
  run.time.run();
  CHECK(run.log.back() == "c@1000");
}

TEST_CASE("a limiter's own cap and the shared one bind together", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 2}};
  limiter a{run.io, {.concurrency = 1, .share = cap}};
  limiter b{run.io, free_of_rates(cap)};
  run.go(guest(run, a, "a1"));
  run.go(guest(run, a, "a2"));
  run.time.poll();
  CHECK(a.why_waiting().binds == wait_reason::cause::concurrency);
  run.go(guest(run, b, "b1"));
  run.go(guest(run, b, "b2"));
  run.time.run();
  // a2 lacked its own cap until a1 went, so b2 had lacked a shared place for longer.
  CHECK(run.log == log_lines{"a1@0", "b1@0", "b2@10", "a2@10"});
}

TEST_CASE("resizing a shared cap lets more in at once, in turn, and revokes nothing", "[shared_cap]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter a{run.io, free_of_rates(cap)};
  limiter b{run.io, free_of_rates(cap)};
  permit out = a.try_acquire().value();
  for (const char* name : {"a1", "a2", "a3", "a4"}) run.go(guest(run, a, name, {}, 1h));
  for (const char* name : {"b1", "b2"}) run.go(guest(run, b, name, {}, 1h));
  run.time.run_for(1ms);
  cap.resize(4);
  run.time.poll();
  CHECK(run.log.size() == 3);
  CHECK(std::count(run.log.begin(), run.log.end(), "b1@1") == 1);
  CHECK(std::count(run.log.begin(), run.log.end(), "a2@1") == 1);
  cap.resize(2);
  CHECK(cap.held() == 4);
  out.release();
  run.time.run_for(1s);
  CHECK(run.log.size() == 3);
  a.stop();
  b.stop();
  run.time.run();
}

TEST_CASE("a cap may go before its limiters, and they before their permits", "[shared_cap]") {
  std::optional<limits_run> run;
  run.emplace();
  std::optional<shared_cap> cap;
  cap.emplace(shared_cap_options{.permits = 2});
  std::optional<limiter> a;
  a.emplace(run->io, free_of_rates(*cap));
  std::optional<limiter> b;
  b.emplace(run->io, free_of_rates(*cap));
  permit p = a->try_acquire().value();
  permit q = b->try_acquire().value();
  CHECK_FALSE(a->try_acquire());
  cap.reset();
  a.reset();
  run->go(guest(*run, *b, "b"));
  run->time.poll();
  p.release();
  run->time.poll();
  CHECK(run->log == log_lines{"b@0"});
  b.reset();
  run.reset();
  q.release();
}

TEST_CASE("a limiter whose context has gone gives back what it held, to those of others", "[shared_cap]") {
  limits_run here;
  auto there = std::make_unique<limits_run>();
  shared_cap cap{{.permits = 2}};
  limiter a{here.io, free_of_rates(cap)};
  limiter b{there->io, free_of_rates(cap)};
  permit p = b.try_acquire().value();
  there->go(guest(*there, b, "inside", {}, 1h));
  there->time.run_for(1ms);
  there->go(guest(*there, b, "waits"));
  there->time.poll();
  here.go(guest(here, a, "first"));
  here.go(guest(here, a, "second"));
  here.time.poll();
  CHECK(here.log.empty());
  there.reset();  // with the permit of the one that is inside, and with the one that waits
  here.time.poll();
  CHECK(here.log == log_lines{"first@0"});
  p.release();
  here.time.poll();
  CHECK(here.log == log_lines{"first@0", "second@0"});
  CHECK_FALSE(b.try_acquire());
  here.time.run();
  CHECK(cap.held() == 0);
}

TEST_CASE("a permit on its way that nobody takes goes back to the shared cap", "[shared_cap]") {
  limits_run here;
  auto there = std::make_unique<limits_run>();
  shared_cap cap{{.permits = 1}};
  limiter a{here.io, free_of_rates(cap)};
  limiter b{there->io, free_of_rates(cap)};
  permit out = a.try_acquire().value();
  b.async_acquire({}, [](std::error_code, permit) { FAIL("called after its context"); });
  there->time.poll();
  here.go(guest(here, a, "a"));
  here.time.poll();
  out.release();
  here.time.poll();
  CHECK(here.log.empty());
  there.reset();
  here.time.poll();
  CHECK(here.log == log_lines{"a@0"});
  here.time.run();
  CHECK(cap.held() == 0);
}

TEST_CASE("executors that call at once pass a place on from within", "[shared_cap]") {
  limits_run run;
  const fickle_executor at_once{run.io, [] { return mood::calls; }};
  shared_cap cap{{.permits = 1}};
  limiter a{at_once, free_of_rates(cap)};
  limiter b{at_once, free_of_rates(cap)};
  permit out = a.try_acquire().value();
  int let_in = 0;
  for (int i = 0; i < 100; ++i) {
    (i % 2 == 0 ? a : b).async_acquire({}, [&](std::error_code ec, permit p) {
      CHECK_FALSE(ec);
      CHECK(cap.held() == 1);
      ++let_in;
      p.release();
    });
  }
  out.release();
  run.time.run();
  CHECK(let_in == 100);
  CHECK(cap.held() == 0);
}

TEST_CASE("limiters on contexts and threads of their own share a cap, and one context after the other goes",
          "[shared_cap][threads]") {
  constexpr int loops = 4;
  constexpr int most = 3;
  shared_cap cap{{.permits = most}};
  std::atomic<int> inside{0};
  std::atomic<bool> exceeded{false};
  struct place {
    std::unique_ptr<net::io_context> io = std::make_unique<net::io_context>();
    std::unique_ptr<limiter> limit;
    std::atomic<int> entered{0};
    std::thread thread;
  };
  std::array<place, loops> places;
  for (int i = 0; i < loops; ++i) {
    place& here = places[static_cast<std::size_t>(i)];
    limiter_options o{.rates = {{rate{1, 1us}, 10, 10}}, .share = cap, .priorities = 2};
    if (i % 2 == 0) o.rates.clear();
    if (i % 3 == 0) o.concurrency = 2;
    here.limit = std::make_unique<limiter>(*here.io, o);
    for (int k = 0; k < 8; ++k) {
      net::co_spawn(
          *here.io,
          [&, k, io = here.io.get()]() -> net::awaitable<void> {
            for (int n = 0;; ++n) {
              request r{.priority = k % 2};
              if (n % 5 == 0) r.deadline = time_source::of(io->get_executor()).now() + 200us;
              try {
                const permit p = co_await here.limit->acquire(r);
                const visit v{inside};
                if (inside > most) exceeded = true;
                ++here.entered;
                if (n % 3 == 0) co_await net::post(net::use_awaitable);
              } catch (const std::system_error&) {
              }
              if (n % 7 == 0) co_await net::post(net::use_awaitable);
            }
          },
          net::detached);
    }
    here.thread = std::thread{[io = here.io.get()] { io->run(); }};
  }
  // Each goes while the others hold, wait and give back.
  for (int i = 0; i < loops; ++i) {
    place& here = places[static_cast<std::size_t>(i)];
    const int before = here.entered;
    while (here.entered < before + 500) std::this_thread::yield();
    if (i + 1 < loops) cap.resize(static_cast<std::uint64_t>(1 + i));
    here.io->stop();
    here.thread.join();
    if (i % 2 == 0) {
      here.io.reset();
      here.limit.reset();
    } else {
      here.limit.reset();
      here.io.reset();
    }
  }
  CHECK_FALSE(exceeded);
  CHECK(cap.held() == 0);
}
