#include "canigo/limiter.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_future.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace {

auto caller(limits_run& run, limiter& l, std::string name, request r, duration hold = 0s) {
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

}  // namespace

TEST_CASE("limiter options out of range are named with value and range", "[limiter]") {
  net::io_context io;
  const auto making = [&](const limiter_options& o) { return refusal_of([&] { limiter{io, o}; }); };
  CHECK(making({}).find("limiter_options.rates.size() is 0; allowed: 1 to 16, or 0 with a concurrency") == 0);
  CHECK(making({.rates = std::vector<rate_limit>(17, rate_limit{rate::per_second(1)})})
            .find("limiter_options.rates.size() is 17") == 0);
  CHECK(making({.concurrency = 0}).find("limiter_options.concurrency is 0; allowed: 1 or more") == 0);
  CHECK_FALSE(making({.rates = {{rate::per_second(1), 0}}}).empty());
  CHECK_FALSE(making({.rates = {{rate::per_second(1), 1, 2}}}).empty());
  CHECK(making({.rates = {{rate::per_second(1)}}, .priorities = 0}).find("limiter_options.priorities is 0") == 0);
  CHECK(making({.concurrency = 1}).empty());
  CHECK(limiter{io, {.concurrency = 1}}.get_executor() == io.get_executor());
  limiter l{io, {.rates = {{rate::per_second(1)}}}};
  CHECK(refusal_of([&] {
          l.set_rate(1, rate::per_second(2));
        }).find("limiter.set_rate: index is 1; allowed: less than 1") == 0);
  CHECK(refusal_of([&] { l.set_burst(2, 1); }).find("limiter.set_burst: index is 2") == 0);
  CHECK_FALSE(refusal_of([&] { l.set_burst(0, 0); }).empty());
  CHECK(refusal_of([&] { l.lower_tokens(1, 1); }).find("limiter.lower_tokens: index is 1; allowed: less than 1") == 0);
  CHECK(refusal_of([&] { l.set_concurrency(0); }).find("limiter.set_concurrency: concurrency is 0") == 0);
}

TEST_CASE("two rates admit together, exactly", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 2, 2}, {rate{3, 1s}, 3, 3}}}};
  for (int i = 0; i < 6; ++i) run.go(caller(run, l, std::to_string(i), {}));
  run.time.run();
  // The first rate: 0, 0, 100, … The second: three at once, then every third of a second, at the nanosecond after it.
  CHECK(run.log == log_lines{"0@0", "1@0", "2@100", "3@333", "4@666", "5@1000"});
  CHECK(l.stats().granted == 6);
}

TEST_CASE("what one limit refuses is taken from no other", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 10, 10}, {rate::per_second(1), 5, 1}}, .concurrency = 4}};
  const auto first = l.try_acquire();
  REQUIRE(first);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(l.try_acquire());
  CHECK(l.stats().tokens == std::vector<std::int64_t>{9, 0});
  CHECK(l.stats().held == 1);
}

TEST_CASE("a place is one, whatever the tokens, and comes back when the permit goes", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1000), 1000, 1000}}, .concurrency = 2}};
  run.go(caller(run, l, "a", {.tokens = 100}, 10ms));
  run.go(caller(run, l, "b", {.tokens = 100}, 20ms));
  run.go(caller(run, l, "c", {.tokens = 100}, 20ms));
  run.go(caller(run, l, "d", {.tokens = 100}, 20ms));
  run.time.run();
  CHECK(run.log == log_lines{"a@0", "b@0", "c@10", "d@20"});
  CHECK(l.stats().held == 0);
}

TEST_CASE("a limiter without rates is a semaphore of places", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.concurrency = 1, .priorities = 2}};
  run.go(caller(run, l, "a", {.priority = 1, .tokens = 7}, 10ms));
  run.time.poll();
  run.go(caller(run, l, "b", {.priority = 1}, 10ms));
  run.go(caller(run, l, "c", {.priority = 0}, 10ms));
  run.time.run();
  CHECK(run.log == log_lines{"a@0", "c@10", "b@20"});
}

TEST_CASE("settling for more is a debt that delays the next, exactly", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(100), 10, 10}, {rate::per_second(1000), 100, 100}}}};
  permit p = l.try_acquire({.tokens = 8}).value();
  p.settle(30);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{-20, 70});
  p.settle(30);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{-20, 70});
  run.go(caller(run, l, "next", {}));
  run.time.run();
  CHECK(run.log == log_lines{"next@210"});
}

TEST_CASE("settling for less gives back, up to the burst, and lets a waiter go at once", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1), 10, 10}}, .concurrency = 8}};
  permit p = l.try_acquire({.tokens = 10}).value();
  run.go(caller(run, l, "next", {.tokens = 4}));
  run.time.run_for(1ms);
  CHECK(run.log.empty());
  p.settle(3);
  run.time.poll();
  CHECK(run.log == log_lines{"next@1"});
  CHECK(l.stats().tokens.front() == 3);
  p.settle(0);
  CHECK(l.stats().tokens.front() == 6);
  p.settle(2);
  CHECK(l.stats().tokens.front() == 4);
  CHECK(p.held() == 1);
  p.release();
  CHECK(l.stats().held == 0);
}

TEST_CASE("a limiter's permit is one place and moves as a whole when it is split", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1), 10, 10}}}};
  permit p = l.try_acquire({.tokens = 5}).value();
  CHECK_THROWS_AS(p.split(2), std::system_error);
  permit q = p.split(1);
  CHECK(p.held() == 0);
  q.settle(6);
  CHECK(l.stats().tokens.front() == 4);
}

TEST_CASE("why_waiting names the limit that binds, and until when", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}, {rate::per_second(1), 2, 2}}, .concurrency = 2}};
  CHECK(l.why_waiting().binds == wait_reason::cause::none);
  std::optional<permit> a = l.try_acquire();
  run.go(caller(run, l, "b", {}, 1h));
  run.time.poll();
  auto why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::rate);
  CHECK(why.index == 0);
  CHECK(why.until == run.time.now() + 100ms);

  run.time.run_for(100ms);
  CHECK(run.log == log_lines{"b@100"});
  run.go(caller(run, l, "c", {}, 0s));
  run.time.poll();
  why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::concurrency);
  CHECK(why.until == time_point::max());

  a.reset();
  why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::rate);
  CHECK(why.index == 1);
  CHECK(why.until == run.time.now() + 900ms);

  l.pause_until(run.time.now() + 3s);
  why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::paused);
  CHECK(why.until == run.time.now() + 3s);
  l.pause();
  CHECK(l.why_waiting().until == time_point::max());
  l.extend_pause(run.time.now() + 3s);
  CHECK(l.why_waiting().until == time_point::max());
  l.resume();
  l.extend_pause(run.time.now() + 1ms);
  l.extend_pause(run.time.now() + 3s);
  CHECK(l.why_waiting().until == run.time.now() + 3s);
  l.resume();
  run.time.run_for(900ms);
  CHECK(run.log == log_lines{"b@100", "c@1000"});
  l.stop();
  run.time.run();
}

TEST_CASE("each limit can be changed for those who wait, at once", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_hour(1)}, {rate::per_second(100), 100, 100}}, .concurrency = 1}};
  for (const char* name : {"a", "b", "c"}) run.go(caller(run, l, name, {}, 50ms));
  run.time.run_for(1ms);
  l.set_rate(0, rate::per_second(100));
  run.time.run_for(10ms);
  CHECK(run.log ==
        log_lines{"a@10"});  // a hundredth of a second less what an hour's rate brought in one ms: nothing it had
  l.set_concurrency(unlimited);
  run.time.run_for(20ms);
  CHECK(run.log.size() == 3);
  CHECK(l.stats().concurrency == unlimited);
  l.set_burst(0, 5);
  run.time.run_for(1s);
  CHECK(l.stats().tokens.front() == 5);
}

TEST_CASE("a deadline that the rates can't meet is refused at once", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 1, 1}, {rate::per_second(1)}}}};
  CHECK(l.estimate({}) == 1s);
  run.go(caller(run, l, "a", {.deadline = run.time.now() + 999ms}));
  run.go(caller(run, l, "b", {.deadline = run.time.now() + 1s}));
  run.time.run();
  CHECK(run.log == log_lines{"a=" + make_error_code(errc::deadline_unreachable).message() + "@0", "b@1000"});
}

TEST_CASE("more tokens than the smallest burst are too large", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 10}, {rate::per_second(1), 3}}}};
  CHECK_THROWS_WITH(l.try_acquire({.tokens = 4}), Catch::Contains("request.tokens is 4; allowed: 1 to 3"));
  run.go(caller(run, l, "a", {.tokens = 4}));
  run.time.run();
  CHECK(run.log == log_lines{"a=" + make_error_code(errc::too_large).message() + "@0"});
}

TEST_CASE("a permit in delivery that nobody takes goes back to all limits", "[limiter]") {
  auto run = std::make_unique<limits_run>();
  limiter l{run->io, {.rates = {{rate::per_second(10), 5, 5}}, .concurrency = 1}};
  permit p = l.try_acquire().value();
  l.async_acquire({.tokens = 3}, [](std::error_code, permit) { FAIL("called after its context"); });
  run->time.poll();
  p.release();
  CHECK(l.stats().tokens.front() == 1);
  run.reset();
  CHECK(l.stats().held == 0);
}

TEST_CASE("a cancelled waiter of a limiter takes from no limit, and its successor goes at once", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1), 5, 2}}, .concurrency = 4}};
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { const permit p = co_await l.acquire({.tokens = 4}); }, signal, ended);
  run.time.poll();
  run.go(caller(run, l, "light", {.tokens = 2}));
  run.time.run_for(10ms);
  signal.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run.log == log_lines{"light@10"});
  CHECK(l.stats().held == 0);
}

TEST_CASE("stopping and destroying a limiter ends who waits", "[limiter]") {
  limits_run run;
  auto l = std::make_unique<limiter>(run.io, limiter_options{.rates = {{rate::per_hour(1)}}});
  run.go(caller(run, *l, "a", {}));
  run.time.poll();
  l->stop();
  CHECK_FALSE(l->try_acquire());
  run.time.poll();
  l = std::make_unique<limiter>(run.io, limiter_options{.rates = {{rate::per_hour(1)}}});
  run.go(caller(run, *l, "b", {}));
  run.time.poll();
  l.reset();
  run.time.run();
  const auto said = make_error_code(errc::stopped).message();
  CHECK(run.log == log_lines{"a=" + said + "@0", "b=" + said + "@0"});
}

TEST_CASE("tokens of one rate are lowered, and never raised", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1), 10, 10}, {rate::per_second(1), 8, 8}}}};
  l.lower_tokens(0, 12);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{10, 8});
  l.lower_tokens(0, 4);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{4, 8});
  l.lower_tokens(0, 6);
  l.lower_tokens(1, 0);
  CHECK(l.stats().tokens == std::vector<std::int64_t>{4, 0});
  run.go(caller(run, l, "a", {.tokens = 2}));
  run.time.run();
  CHECK(run.log == log_lines{"a@2000"});
  run.go([&]() -> net::awaitable<void> {
    permit p = co_await l.acquire({.tokens = 1});
    p.settle(9);
    l.lower_tokens(1, 0);
  });
  run.time.run();
  CHECK(run.ms() == 3000);
  CHECK(l.stats().tokens[1] == -8);  // a debt stays as it is
}

TEST_CASE("a waiter is timed anew when tokens are lowered", "[limiter]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(1), 10, 5}}}};
  run.go(caller(run, l, "a", {.tokens = 6}));
  run.time.run_for(500ms);
  l.lower_tokens(0, 3);
  run.time.run();
  // The half of a token that was on its way stays.
  CHECK(run.log == log_lines{"a@3000"});
}

TEST_CASE("a permit may outlive its limiter, and still be settled", "[limiter]") {
  permit p;
  {
    limits_run run;
    {
      limiter l{run.io, {.rates = {{rate::per_second(1), 5, 5}}}};
      auto future = l.async_acquire({.tokens = 3}, net::use_future);
      run.time.poll();
      p = future.get();
    }
    p.settle(1);
  }
  p.settle(2);
}

TEST_CASE("a long saturation keeps every limit, with the rates of three apis", "[limiter]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10}, {rate::per_minute(300), 30}}, .concurrency = 16, .priorities = 3}};
  std::vector<duration> granted;
  int inside = 0;
  for (int i = 0; i < 40; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      for (int k = 0; k < 50; ++k) {
        permit p = co_await l.acquire(i % 3);
        granted.push_back(run.time.elapsed());
        CHECK(++inside <= 16);
        co_await sleep_for(std::chrono::milliseconds{(i * 37 + k * 11) % 400});
        --inside;
      }
    });
  }
  run.time.run();
  REQUIRE(granted.size() == 2000);
  for (std::size_t i = 0; i < granted.size(); ++i) {
    for (std::size_t j = i; j < std::min(granted.size(), i + 400); ++j) {
      const auto tokens = static_cast<std::int64_t>(j - i + 1);
      const auto window = granted[j] - granted[i];
      if (tokens > 10 + window * 10 / 1s) FAIL("the rate of seconds is exceeded");
      if (tokens > 30 + window * 5 / 1s) FAIL("the rate of minutes is exceeded");
    }
  }
  CHECK(granted.back() <= 400s + 1s);
}

TEST_CASE("threads share a limiter", "[limiter][threads]") {
  net::io_context io;
  limiter l{io, {.rates = {{rate{1, 1us}, 50, 50}, {rate{1, 2us}, 500, 500}}, .concurrency = 4, .priorities = 2}};
  std::atomic<int> inside{0};
  std::atomic<bool> exceeded{false};
  std::atomic<int> ends{0};
  for (int t = 0; t < 16; ++t) {
    net::co_spawn(
        net::make_strand(io),
        [&, t]() -> net::awaitable<void> {
          for (int i = 0; i < 200; ++i) {
            permit p = co_await l.acquire({.priority = t % 2, .tokens = 2});
            if (++inside > 4) exceeded = true;
            if (i % 4 == 0) co_await net::post(net::use_awaitable);
            p.settle(static_cast<std::uint64_t>(i % 4));
            --inside;
            ++ends;
          }
        },
        net::detached);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { io.run(); });
  for (int i = 0; i < 50; ++i) {
    l.set_concurrency(1 + static_cast<std::uint64_t>(i) % 4);
    (void)l.why_waiting();
    (void)l.stats();
  }
  l.set_concurrency(4);
  for (auto& t : threads) t.join();
  CHECK(ends == 16 * 200);
  CHECK_FALSE(exceeded);
  CHECK(l.stats().held == 0);
}
