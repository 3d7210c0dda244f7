// Flows of a limit whose rates have several units.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_executor.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace flow_units {

using namespace canigo;
using namespace std::chrono_literals;
using tokens_left = std::vector<std::int64_t>;

/// 10 requests a second, and 1000 tokens.
limiter_options two_units(std::uint64_t requests = 1, std::uint64_t tokens = 100) {
  return {.rates = {{rate::per_second(10), requests, 0, "requests"}, {rate::per_second(1000), tokens, 0, "tokens"}}};
}

void ask_units(limits_run& run, limiter& l, std::string name, request r) {
  run.go([&run, &l, name, r]() -> net::awaitable<void> {
    std::error_code e;
    const permit p = co_await l.acquire(r, e);
    run.note(e ? name + "=" + e.message() : name);
  });
}

std::size_t grants_of(const limits_run& run, char name) {
  return static_cast<std::size_t>(std::ranges::count_if(run.log, [=](const auto& line) { return line[0] == name; }));
}

/// What a call that is refused says, without the code's own words.
std::string refusal_in_units(auto call) {
  const std::string text = refusal_of(call);
  return text.substr(0, text.rfind(": "));
}

}  // namespace flow_units

using namespace flow_units;

TEST_CASE("flows are charged for the unit of which a request takes most", "[flow][units]") {
  limits_run run;
  limiter l{run.io, two_units()};
  const flow small{l}, large{l};
  // One wants the tokens of 20 ms, and a request's 100 ms; the other one the tokens of 100 ms. So they take turns.
  for (int i = 0; i < 20; ++i) ask_units(run, l, "s", {.flow = &small, .amounts = {{"tokens", 20}}});
  for (int i = 0; i < 20; ++i) ask_units(run, l, "l", {.flow = &large, .amounts = {{"tokens", 100}}});
  run.time.run_for(2s);
  CHECK(grants_of(run, 's') == 10);
  CHECK(grants_of(run, 'l') == 10);
  l.stop();
  run.time.run();
}

TEST_CASE("a flow of long requests gets no more of the scarce unit than its share", "[flow][units]") {
  limits_run run;
  // A million requests a second, so only tokens are scarce: 1000 a second.
  limiter l{run.io, {.rates = {{rate::per_second(1'000'000), 1, 0}, {rate::per_second(1000), 300, 0, "tokens"}}}};
  const flow brief{l}, verbose{l}, gold{l, {.weight = 2}};
  for (int i = 0; i < 400; ++i) ask_units(run, l, "b", {.flow = &brief, .amounts = {{"tokens", 10}}});
  for (int i = 0; i < 40; ++i) ask_units(run, l, "v", {.flow = &verbose, .amounts = {{"tokens", 250}}});
  for (int i = 0; i < 400; ++i) ask_units(run, l, "g", {.flow = &gold, .amounts = {{"tokens", 20}}});
  run.time.run_for(8s);
  const auto of_brief = static_cast<long>(grants_of(run, 'b')) * 10,
             of_gold = static_cast<long>(grants_of(run, 'g')) * 20;
  const auto of_verbose = static_cast<long>(grants_of(run, 'v')) * 250;
  CHECK(of_brief + of_gold + of_verbose <= 8000 + 300);
  CHECK(of_brief + of_gold + of_verbose > 8000 - 250);
  CHECK(std::abs(of_brief - of_verbose) <= 10 + 250);
  CHECK(std::abs(of_gold - 2 * of_verbose) <= 20 + 2 * 250);
  l.stop();
  run.time.run();
}

TEST_CASE("over any interval, flows that compete differ by one request each in what they are charged",
          "[flow][units]") {
  limits_run run;
  limiter l{
      run.io,
      {.rates = {
           {rate::per_second(10), 1, 0, "a"}, {rate::per_second(30), 30, 0, "b"}, {rate::per_second(7), 7, 0, "c"}}}};
  const flow one{l, {.weight = 2}}, two{l, {.weight = 5}};
  std::vector<std::pair<int, std::int64_t>> grants;  // whose, and for how many nanoseconds of its slowest rate
  std::int64_t largest[2] = {};
  std::uint64_t seed = 7;
  const auto roll = [&seed](std::uint64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
  };
  for (int i = 0; i < 600; ++i) {
    const int whose = i % 2;
    const std::uint64_t b = roll(31), c = roll(8);
    const std::int64_t cost = std::max({std::int64_t{100'000'000}, static_cast<std::int64_t>(b) * 33'333'333,
                                        static_cast<std::int64_t>(c) * 142'857'142});
    const request r{.flow = whose == 0 ? &one : &two, .amounts = {{"b", b}, {"c", c}}};
    l.async_acquire(r, [&grants, &largest, whose, cost](std::error_code e, permit) {
      if (e) return;
      grants.emplace_back(whose, cost);
      largest[whose] = std::max(largest[whose], cost);
    });
  }
  run.time.run_for(60s);
  REQUIRE(grants.size() > 100);
  std::size_t wrong = 0;
  for (std::size_t from = 0; from < grants.size(); ++from) {
    std::int64_t w[2] = {};
    for (std::size_t to = from; to < grants.size(); ++to) {
      w[grants[to].first] += grants[to].second;
      wrong += std::abs(w[0] * 5 - w[1] * 2) > largest[0] * 5 + largest[1] * 2 + 1000;
    }
  }
  CHECK(wrong == 0);
  l.stop();
  run.time.run();
}

TEST_CASE("a grant at once counts in its class, with a flow or without", "[flow][units]") {
  limits_run run;
  limiter_options o = two_units(9, 900);
  o.priorities = 2;
  limiter l{run.io, o};
  run.time.run_for(10s);
  CHECK(l.try_acquire({.priority = 1, .amounts = {{"tokens", 1}}}));
  CHECK(l.stats().granted == 1);
  CHECK(l.stats().classes[1].granted == 1);
  const flow f{l};
  CHECK(l.try_acquire({.priority = 1, .flow = &f, .amounts = {{"tokens", 1}}}));
  CHECK(f.stats().granted == 1);
  CHECK(l.stats().granted == 2);
  CHECK(l.stats().classes[1].granted == 2);
}

TEST_CASE("the ceilings of a flow have units, too, and hold up no other flow", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 1000, "tokens"}}}};
  const flow trial{l, {.rates = {{rate::per_second(100), 100, 100, "tokens"}, {rate::per_second(5), 5, 5}}}}, other{l};
  ask_units(run, l, "t1", {.flow = &trial, .amounts = {{"tokens", 100}}});
  ask_units(run, l, "t2", {.flow = &trial, .amounts = {{"tokens", 50}}});
  ask_units(run, l, "o", {.flow = &other, .amounts = {{"tokens", 500}}});
  run.time.poll();
  CHECK(run.log == log_lines{"t1@0", "o@0"});
  CHECK(trial.stats().available == tokens_left{0, 4});
  const wait_reason why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::flow);
  CHECK(why.ceiling == wait_reason::cause::rate);
  CHECK(why.index == 0);
  CHECK(why.until == run.time.now() + 500ms);
  run.time.run();
  CHECK(run.log.back() == "t2@500");
  CHECK(trial.stats().tokens == 2);
}

TEST_CASE("a flow in debt for one unit lets a request go that wants nothing of it", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 1000, "tokens"}}}};
  const flow f{l, {.rates = {{rate::per_second(100), 100, 100, "tokens"}}}};
  permit p = l.try_acquire({.flow = &f, .amounts = {{"tokens", 10}}}).value();
  p.settle("tokens", 300);
  CHECK(l.stats().tokens == tokens_left{9, 700});
  CHECK(f.stats().available == tokens_left{-200});
  CHECK_FALSE(l.try_acquire({.flow = &f, .amounts = {{"tokens", 1}}}));
  CHECK(l.try_acquire({.flow = &f}));
  p.settle("tokens", 0);
  CHECK(f.stats().available == tokens_left{100});
  p.settle(3);
  CHECK(f.stats().available == tokens_left{100});
  CHECK(l.stats().tokens == tokens_left{6, 1000});
}

TEST_CASE("a unit that is settled long after it was granted counts from then on", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 1000, "tokens"}}}};
  const flow f{l, {.rates = {{rate::per_second(100), 100, 100, "tokens"}}}};
  permit p = l.try_acquire({.flow = &f, .amounts = {{"tokens", 50}}}).value();
  run.time.run_for(1s);  // all that it took has come back
  p.settle("tokens", 80);
  CHECK(f.stats().available == tokens_left{70});
  CHECK(l.stats().tokens == tokens_left{10, 970});
}

TEST_CASE("what a flow's units can never give is refused, and nothing is taken", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 1000, "tokens"}}}};
  const flow f{l, {.rates = {{rate::per_second(100), 100, 100, "tokens"}}}};
  CHECK(refusal_in_units([&] { (void)l.try_acquire({.flow = &f, .amounts = {{"tokens", 101}}}); }) ==
        R"(request.amounts["tokens"] is 101; allowed: 0 to 100)");
  CHECK(refusal_in_units([&] {
          (void)l.try_acquire({.flow = &f, .amounts = {{"bytes", 1}}});
        }).find("request.amounts[0].unit") == 0);
  ask_units(run, l, "x", {.flow = &f, .amounts = {{"tokens", 101}}});
  run.time.run();
  CHECK(run.log == log_lines{"x=" + make_error_code(errc::too_large).message() + "@0"});
  CHECK(f.stats().failed == 3);
  CHECK(f.stats().available == tokens_left{100});
  CHECK(l.stats().tokens == tokens_left{10, 1000});

  CHECK(refusal_in_units([&] { const flow g{l, {.rates = {{rate::per_second(1), 1, 0, "bytes"}}}}; }) ==
        R"(flow_options.rates[0].unit is "bytes"; allowed: "requests", "tokens")");
  CHECK(refusal_in_units([&] { const flow g{l, {.rates = {{rate::per_second(1), 1001, 0, "tokens"}}}}; }) ==
        "flow_options.rates[0].burst is 1001; allowed: 1 to 1000, the burst of the limit");
  scheduler s{run.io, {.rate = rate::per_second(1)}};
  CHECK(refusal_in_units([&] { const flow g{s, {.rates = {{rate::per_second(1), 1, 0, "tokens"}}}}; }) ==
        R"(flow_options.rates[0].unit is "tokens"; allowed: none)");
}

TEST_CASE("an estimate knows what a flow's own waiters want of each unit", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 0, "tokens"}},
             .priorities = 2}};
  const flow f{l}, g{l};
  flow capped{l, {.concurrency = 10}};
  ask_units(run, l, "1", {.flow = &f, .amounts = {{"tokens", 500}}});
  ask_units(run, l, "2", {.flow = &f, .amounts = {{"tokens", 700}}});
  ask_units(run, l, "3", {.flow = &capped, .amounts = {{"tokens", 100}}});
  run.time.poll();
  CHECK(l.estimate({.flow = &f, .amounts = {{"tokens", 100}}}) == 1300ms);
  CHECK(l.estimate({.flow = &g, .amounts = {{"tokens", 100}}}) == 100ms);
  CHECK(l.estimate({.priority = 1, .flow = &g, .amounts = {{"tokens", 100}}}) == 1300ms);
  CHECK(l.estimate({.priority = 1, .flow = &capped, .amounts = {{"tokens", 100}}}) == 1400ms);
  capped.set_concurrency(unlimited);
  CHECK(l.estimate({.priority = 1, .flow = &g, .amounts = {{"tokens", 100}}}) == 1400ms);
  ask_units(run, l, "late", {.deadline = run.time.now() + 1299ms, .flow = &f, .amounts = {{"tokens", 100}}});
  run.time.poll();
  CHECK(run.log == log_lines{"late=" + make_error_code(errc::deadline_unreachable).message() + "@0"});
  run.time.run();
  CHECK(run.log.size() == 4);
  CHECK(l.estimate({.flow = &f, .amounts = {{"tokens", 100}}}) == 100ms);
}

TEST_CASE("the list of those that wait knows what higher classes of other flows want of each unit", "[flow][units]") {
  limits_run run;
  limiter l{run.io,
            {.rates = {{rate::per_second(10), 10, 10, "requests"}, {rate::per_second(1000), 1000, 0, "tokens"}},
             .priorities = 2}};
  const flow f{l}, g{l};
  ask_units(run, l, "1", {.flow = &f, .amounts = {{"tokens", 500}}});
  ask_units(run, l, "2", {.priority = 1, .flow = &g, .amounts = {{"tokens", 100}}});
  run.time.poll();
  const auto rows = l.waiting(10);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].estimate == 500ms);
  CHECK(rows[1].estimate == 600ms);
  run.time.run();
}

TEST_CASE("those that wait when the first flow comes keep their amounts", "[flow][units]") {
  limits_run run;
  limiter l{run.io, two_units(10, 1000)};
  net::cancellation_signal cancel;
  std::error_code ended;
  ask_units(run, l, "n1", {.amounts = {{"tokens", 300}}});
  run.go([&]() -> net::awaitable<void> { const permit p = co_await l.acquire({.amounts = {{"tokens", 200}}}); }, cancel,
         ended);
  run.time.poll();
  const flow f{l};
  ask_units(run, l, "f", {.flow = &f, .amounts = {{"tokens", 100}}});
  run.time.poll();
  CHECK(l.estimate({.amounts = {{"tokens", 1}}}) == 501ms);
  cancel.emit(net::cancellation_type::terminal);
  run.time.poll();
  CHECK(ended == net::error::operation_aborted);
  CHECK(l.estimate({.amounts = {{"tokens", 1}}}) == 301ms);
  run.time.run();
  CHECK(run.log == log_lines{"n1@300", "f@400"});
}

TEST_CASE("a burst that shrinks ends what has become too large of its unit, in every flow", "[flow][units]") {
  limits_run run;
  limiter l{run.io, two_units(10, 1000)};
  const flow held{l, {.rates = {{rate::per_hour(1), 1, 0}}}}, f{l};
  ask_units(run, l, "a", {.flow = &held, .amounts = {{"tokens", 600}}});
  ask_units(run, l, "b", {.flow = &f, .amounts = {{"tokens", 500}}});
  ask_units(run, l, "c", {.flow = &f, .amounts = {{"tokens", 400}}});
  run.time.poll();
  l.set_burst(1, 450);
  run.time.run_for(1s);
  const std::string too_large = "=" + make_error_code(errc::too_large).message() + "@0";
  CHECK(run.log == log_lines{"a" + too_large, "b" + too_large, "c@400"});
}

TEST_CASE("a grant of several units to a flow that is never delivered comes back to both", "[flow][units]") {
  auto run = std::make_unique<limits_run>();
  net::io_context other;
  limiter l{
      other,
      {.rates = {{rate::per_hour(1), 5, 5, "requests"}, {rate::per_hour(1), 100, 100, "tokens"}}, .concurrency = 5}};
  const flow f{l, {.rates = {{rate::per_hour(1), 50, 50, "tokens"}}, .concurrency = 5}};
  l.async_acquire({.tokens = 3, .flow = &f, .amounts = {{"tokens", 30}}},
                  net::bind_executor(run->io, [](std::error_code, permit) {}));
  CHECK(f.stats().held == 1);
  CHECK(f.stats().available == tokens_left{20});
  CHECK(l.stats().tokens == tokens_left{2, 70});
  run.reset();
  CHECK(f.stats().held == 0);
  CHECK(f.stats().available == tokens_left{50});
  CHECK(l.stats().tokens == tokens_left{5, 100});
}

TEST_CASE("flows of several units share a place, and stop with their limit", "[flow][units]") {
  limits_run run;
  shared_cap cap{{.permits = 1}};
  limiter_options o = two_units(10, 1000);
  o.rates[0].initial_tokens = 10;
  o.rates[1].initial_tokens = 1000;
  o.share = cap;
  std::optional<limiter> l{std::in_place, run.io, o};
  const flow a{*l}, b{*l};
  std::optional<permit> first = l->try_acquire({.flow = &a, .amounts = {{1, 10}}});
  ask_units(run, *l, "a", {.flow = &a, .amounts = {{1, 10}}});
  ask_units(run, *l, "b", {.flow = &b, .amounts = {{1, 10}}});
  run.time.run_for(1ms);
  CHECK(run.log.empty());
  first.reset();
  run.time.run_for(1ms);
  CHECK(run.log == log_lines{"a@1", "b@1"});
  first = l->try_acquire();
  ask_units(run, *l, "c", {.flow = &b, .amounts = {{1, 10}}});
  run.time.run_for(1ms);
  l.reset();
  run.time.run();
  CHECK(run.log.back() == "c=" + make_error_code(errc::stopped).message() + "@3");
  first.reset();
  CHECK(cap.held() == 0);
}

TEST_CASE("slack lets the wake-ups of a limit with flows meet", "[flow]") {
  limits_run run;
  limiter l{run.io, {.rates = {{rate::per_second(10'000), 100, 0}}, .slack = 1ms}};
  const flow f{l};
  for (int i = 0; i < 15; ++i) ask_units(run, l, "x", {.flow = &f});
  run.time.run();
  CHECK(run.log.front() == "x@1");
  CHECK(grants_of(run, 'x') == 15);
  CHECK(run.ms() == 2);
}
