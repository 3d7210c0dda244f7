// Rates of several units.
#include "canigo/limiter.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/post.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

using namespace canigo;
using namespace std::chrono_literals;

namespace limiter_units {

// As an API says it: so many requests, and so many tokens.
limiter_options api(std::uint64_t requests = 10, std::uint64_t tokens = 1000) {
  return {.rates = {{rate::per_second(10), requests, requests, "requests"},
                    {rate::per_second(1000), tokens, tokens, "tokens"}}};
}

auto unit_caller(limits_run& run, limiter& l, std::string name, request r, duration hold = 0s) {
  return [&run, &l, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await l.acquire(r, ec);
    run.note(ec ? name + "=" + ec.message() : name);
    co_await sleep_for(hold);
  };
}

using levels = std::vector<std::int64_t>;

}  // namespace limiter_units

using namespace limiter_units;

TEST_CASE("a request takes its own amount of each unit", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  permit p = l.try_acquire({.amounts = {{"tokens", 300}}}).value();
  CHECK(l.stats().tokens == levels{9, 700});
  permit q = l.try_acquire({.tokens = 2, .amounts = {{1, 50}}}).value();
  CHECK(l.stats().tokens == levels{7, 650});
  const permit none = l.try_acquire().value();
  CHECK(l.stats().tokens == levels{6, 650});
  CHECK(l.stats().held == 3);
}

TEST_CASE("whoever waits, waits for the unit that it lacks", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  run.go(unit_caller(run, l, "heavy", {.amounts = {{"tokens", 1000}}}));
  run.go(unit_caller(run, l, "next", {.amounts = {{"tokens", 500}}}));
  run.go(unit_caller(run, l, "light", {}));
  run.time.run();
  // The light one lacks nothing; but it came later, and nobody overtakes.
  CHECK(run.log == log_lines{"heavy@0", "next@500", "light@500"});
}

TEST_CASE("a request that wants nothing of a unit does not wait for its debt", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  permit p = l.try_acquire({.amounts = {{"tokens", 1}}}).value();
  p.settle("tokens", 5000);
  CHECK(l.stats().tokens == levels{9, -4000});
  CHECK(l.try_acquire());
  CHECK(l.try_acquire({.amounts = {{"tokens", 0}}}));
  CHECK_FALSE(l.try_acquire({.amounts = {{"tokens", 1}}}));
  CHECK(l.stats().tokens == levels{7, -4000});
}

TEST_CASE("what one unit refuses is taken from no other", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api(2)};
  const permit p = l.try_acquire({.tokens = 2}).value();
  CHECK_FALSE(l.try_acquire({.amounts = {{"tokens", 10}}}));
  CHECK(l.stats().tokens == levels{0, 1000});
  run.time.run_for(1s);
  const permit q = l.try_acquire({.amounts = {{"tokens", 1000}}}).value();
  CHECK_FALSE(l.try_acquire({.amounts = {{"tokens", 1}}}));
  CHECK(l.stats().tokens == levels{1, 0});
  CHECK(l.stats().held == 2);
}

TEST_CASE("each unit is settled by itself, into debt or back to the burst", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  permit p = l.try_acquire({.amounts = {{"tokens", 400}}}).value();
  p.settle("tokens", 1500);
  CHECK(l.stats().tokens == levels{9, -500});
  p.settle("tokens", 100);
  CHECK(l.stats().tokens == levels{9, 900});
  p.settle(3);
  CHECK(l.stats().tokens == levels{7, 900});
  p.settle("requests", 1);
  p.settle(0, 2);
  CHECK(l.stats().tokens == levels{8, 900});
  p.settle(1, 0);
  CHECK(l.stats().tokens == levels{8, 1000});
  CHECK(refusal_of([&] {
          p.settle("bytes", 1);
        }).find(R"(permit.settle: unit is "bytes"; allowed: "requests", "tokens")") == 0);
  CHECK(l.stats().tokens == levels{8, 1000});
}

TEST_CASE("a permit that was waited for is settled from what it asked for", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  run.go([&]() -> net::awaitable<void> {
    permit first = co_await l.acquire({.amounts = {{"tokens", 1000}}});
    permit second = co_await l.acquire({.amounts = {{"tokens", 600}}});
    CHECK(run.ms() == 600);
    first.release();
    second.settle("tokens", 500);
  });
  run.time.run();
  CHECK(l.stats().tokens.back() == 100);
  CHECK(l.stats().held == 0);
}

TEST_CASE("what is wrong with the units of a request is named, and nothing is taken", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  const auto refused = [&](const request& r) {
    const std::string now = refusal_of([&] { (void)l.try_acquire(r); });
    std::string later;
    run.go([&]() -> net::awaitable<void> {
      try {
        const permit p = co_await l.acquire(r);
      } catch (const std::system_error& e) {
        later = said_by(e);
      }
    });
    run.time.poll();
    CHECK(now == later);
    CHECK(refusal_of([&] { (void)l.estimate(r); }) == now);
    return now.substr(0, now.rfind(": "));
  };
  CHECK(refused({.amounts = {{"bytes", 1}}}) == R"(request.amounts[0].unit is "bytes"; allowed: "tokens")");
  CHECK(refused({.amounts = {{"tokens", 1001}}}) == R"(request.amounts["tokens"] is 1001; allowed: 0 to 1000)");
  CHECK(refused({.amounts = {{"tokens", 1}, {"tokens", 1}}}) ==
        R"(request.amounts[1].unit is "tokens" again; allowed: each unit once)");
  CHECK(refused({.amounts = {{0, 1}}}) ==
        R"(request.amounts[0].unit is 0; allowed: "tokens"; request.tokens is the amount of that unit)");
  CHECK(refused({.tokens = 11}) == "request.tokens is 11; allowed: 1 to 10");
  CHECK(l.stats().tokens == levels{10, 1000});
  CHECK(l.stats().rejected == 10);
  CHECK(l.stats().held == 0);

  limiter plain{run.io, {.rates = {{rate::per_second(1), 5, 5}}}};
  CHECK(refusal_of([&] {
          (void)plain.try_acquire({.amounts = {{"tokens", 1}}});
        }).find(R"(request.amounts[0].unit is "tokens"; allowed: none, because this limit has no other unit)") == 0);
  CHECK(plain.stats().tokens == levels{5});
  permit p = plain.try_acquire().value();
  CHECK(refusal_of([&] { p.settle("tokens", 2); }).find(R"(permit.settle: unit is "tokens"; allowed: none)") == 0);
}

TEST_CASE("the only unit of a limiter has a name, too", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10), 50, 50, "tokens"}}}};
  permit p = l.try_acquire({.tokens = 20}).value();
  p.settle("tokens", 5);
  CHECK(l.stats().tokens == levels{45});
  CHECK(refusal_of([&] {
          (void)l.try_acquire({.amounts = {{"tokens", 1}}});
        }).find(R"(request.amounts[0].unit is "tokens"; allowed: none)") == 0);
}

TEST_CASE("two rates of a unit both take its amount", "[limiter][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10},
                       {rate::per_second(1000), 1000, 1000, "tokens"},
                       {rate::per_minute(6000), 3000, 3000, "tokens"},
                       {rate::per_minute(60), 60, 60}}}};
  const permit p = l.try_acquire({.tokens = 2, .amounts = {{"tokens", 100}}}).value();
  CHECK(l.stats().tokens == levels{8, 900, 2900, 58});
  CHECK(refusal_of([&] { (void)l.try_acquire({.amounts = {{"tokens", 1001}}}); }).find("0 to 1000") !=
        std::string::npos);
}

TEST_CASE("whoever leaves takes the amounts of all units along", "[limiter][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"},
                       {rate::per_second(1000), 1000, 0, "in"},
                       {rate::per_second(1000), 1000, 0, "out"},
                       {rate::per_second(1000), 1000, 0, "bytes"}}}};
  const auto estimates = [&](duration d) {
    for (const char* unit : {"in", "out", "bytes"}) CHECK(l.estimate({.amounts = {{unit, 100}}}) == d);
  };
  run.go(unit_caller(run, l, "a", {.amounts = {{"in", 500}, {"out", 500}, {"bytes", 500}}}));
  run.time.poll();
  estimates(600ms);
  run.time.run();
  CHECK(run.log == log_lines{"a@500"});
  estimates(100ms);
}

TEST_CASE("why_waiting and estimate know the units", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  const permit all = l.try_acquire({.amounts = {{"tokens", 1000}}}).value();
  CHECK(l.estimate({}) == 0s);
  CHECK(l.estimate({.amounts = {{"tokens", 250}}}) == 250ms);
  run.go(unit_caller(run, l, "a", {.amounts = {{"tokens", 200}}}));
  run.time.poll();
  CHECK(l.why_waiting().binds == wait_reason::cause::rate);
  CHECK(l.why_waiting().index == 1);
  CHECK(l.why_waiting().until == run.time.now() + 200ms);
  CHECK(l.estimate({.amounts = {{"tokens", 250}}}) == 450ms);
  run.go(unit_caller(run, l, "b", {.deadline = run.time.now() + 449ms, .amounts = {{"tokens", 250}}}));
  run.go(unit_caller(run, l, "c", {.deadline = run.time.now() + 450ms, .amounts = {{"tokens", 250}}}));
  run.time.run();
  CHECK(run.log == log_lines{"b=" + make_error_code(errc::deadline_unreachable).message() + "@0", "a@200", "c@450"});
}

TEST_CASE("a burst that becomes too small for a unit ends those that want more of it", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api()};
  const permit all = l.try_acquire({.amounts = {{"tokens", 1000}}}).value();
  run.go(unit_caller(run, l, "heavy", {.amounts = {{"tokens", 600}}}));
  run.go(unit_caller(run, l, "light", {.amounts = {{"tokens", 500}}}));
  run.time.poll();
  l.set_burst(1, 500);
  run.time.run();
  CHECK(run.log == log_lines{"heavy=" + make_error_code(errc::too_large).message() + "@0", "light@500"});
}

TEST_CASE("a waiter of units that leaves takes nothing, and a grant that nobody takes goes back", "[limiter][units]") {
  auto run = std::make_unique<limits_run>();
  limiter l{run->io, api()};
  std::optional<permit> all = l.try_acquire({.amounts = {{"tokens", 1000}}});
  net::cancellation_signal signal;
  std::error_code ended;
  run->go([&]() -> net::awaitable<void> { const permit p = co_await l.acquire({.amounts = {{"tokens", 900}}}); },
          signal, ended);
  run->time.poll();
  run->go(unit_caller(*run, l, "light", {.amounts = {{"tokens", 10}}}));
  run->time.run_for(10ms);
  signal.emit(net::cancellation_type::terminal);
  run->time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(run->log == log_lines{"light@10"});
  CHECK(l.estimate({.amounts = {{"tokens", 10}}}) == 10ms);

  l.async_acquire({.amounts = {{"tokens", 100}}}, [](std::error_code, permit) { FAIL("called after its context"); });
  run->time.poll();
  all->settle("tokens", 0);  // it is granted, and on its way
  CHECK(l.stats().tokens.back() == 900);
  run.reset();
  CHECK(l.stats().held == 1);
  all.reset();
  CHECK(l.stats().held == 0);
}

TEST_CASE("a permit of units outlives its limiter", "[limiter][units]") {
  limits_run run;
  auto l = std::make_unique<limiter>(run.io, api());
  permit p = l->try_acquire({.amounts = {{"tokens", 10}}}).value();
  permit q = l->try_acquire({.amounts = {{"tokens", 20}}}).value();
  l.reset();
  p.settle("tokens", 15);
  p.release();
  permit last = std::move(q);
  last.settle("tokens", 5);
}

TEST_CASE("a loop of acquires with units passes through the event loop now and then", "[limiter][units]") {
  limits_run run;
  limiter l{run.io, api(1'000'000, 1'000'000)};
  bool is_over = false;
  int turns = 0;
  run.go([&]() -> net::awaitable<void> {
    for (int i = 0; i < 1000; ++i) {
      permit p = co_await l.acquire({.amounts = {{"tokens", 2}}});
      p.settle("tokens", 1);
    }
    is_over = true;
  });
  run.go([&]() -> net::awaitable<void> {
    while (!is_over) {
      ++turns;
      co_await net::post(net::use_awaitable);
    }
  });
  run.time.poll();
  CHECK(turns >= 7);
  CHECK(l.stats().tokens == levels{1'000'000 - 1000, 1'000'000 - 1000});
}

TEST_CASE("units and a shared cap are admitted in one step", "[limiter][units]") {
  limits_run run;
  const shared_cap cap{{.permits = 1}};
  limiter_options o = api();
  o.share = cap;
  limiter l{run.io, o};
  limiter other{run.io, {.share = cap}};
  run.go(unit_caller(run, other, "other", {}, 100ms));
  run.time.poll();
  run.go(unit_caller(run, l, "first", {.amounts = {{"tokens", 1000}}}, 50ms));
  run.go(unit_caller(run, l, "second", {.amounts = {{"tokens", 200}}}));
  run.time.run();
  CHECK(run.log == log_lines{"other@0", "first@100", "second@300"});
  CHECK(cap.held() == 0);
}

TEST_CASE("threads share a limiter with units", "[limiter][units][threads]") {
  net::io_context io;
  limiter l{io,
            {.rates = {{rate{1, 1us}, 50, 50, "requests"}, {rate{1, 100ns}, 500, 500, "tokens"}},
             .concurrency = 4,
             .priorities = 2}};
  std::atomic<int> inside{0};
  std::atomic<bool> exceeded{false};
  std::atomic<int> ends{0};
  for (int t = 0; t < 16; ++t) {
    net::co_spawn(
        net::make_strand(io),
        [&, t]() -> net::awaitable<void> {
          for (int i = 0; i < 100; ++i) {
            permit p = co_await l.acquire({.priority = t % 2, .amounts = {{"tokens", static_cast<unsigned>(i % 7)}}});
            if (++inside > 4) exceeded = true;
            if (i % 4 == 0) co_await net::post(net::use_awaitable);
            p.settle("tokens", static_cast<std::uint64_t>(i % 4));
            --inside;
            ++ends;
          }
        },
        net::detached);
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back([&] { io.run(); });
  for (int i = 0; i < 50; ++i) {
    (void)l.why_waiting();
    (void)l.try_acquire({.amounts = {{"tokens", 1}}});
    (void)l.estimate({.amounts = {{"tokens", 1}}});
  }
  for (auto& t : threads) t.join();
  CHECK(ends == 16 * 100);
  CHECK_FALSE(exceeded);
  CHECK(l.stats().held == 0);
}
