// A limiter with limits of which each binds only the requests that name it.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace sublimits_tests {

constexpr int model_a = 0, model_b = 1;
constexpr std::uint64_t only_first = 1, only_second = 2;

/// Sublimits a and b of one token a second and this burst, full, and a common cap.
limiter_options models(std::uint64_t burst = 1) {
  limiter_options o{.concurrency = 100};
  for (const char* const name : {"a", "b"})
    o.sublimits.push_back({.name = name, .rates = {{rate::per_second(1), burst, burst}}});
  return o;
}

/// Notes its name, and the error if it ends with one.
auto caller(limits_run& run, limiter& l, std::string name, request r, duration hold = 0s) {
  return [&run, &l, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await l.acquire(r, ec);
    run.note(ec ? name + "=" + ec.message() : name);
    co_await sleep_for(hold);
  };
}

std::int64_t tokens_of(const limiter& l, std::size_t sublimit) { return l.stats().sublimits[sublimit].tokens.front(); }

}  // namespace sublimits_tests

using namespace sublimits_tests;

TEST_CASE("a sublimit binds only those that name it", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models()};
  const auto first = l.try_acquire({.sublimit = model_a});
  CHECK(first);
  CHECK_FALSE(l.try_acquire({.sublimit = model_a}));
  CHECK(l.try_acquire({.sublimit = model_b}));
  CHECK(l.try_acquire());
  const limiter_stats s = l.stats();
  CHECK(s.sublimits[model_a].name == "a");
  CHECK(s.sublimits[model_a].tokens.front() == 0);
  CHECK(s.sublimits[model_a].held == 1);
  CHECK(s.sublimits[model_a].granted == 1);
  CHECK(s.sublimits[model_b].granted == 1);
  CHECK(s.alternatives.empty());
  CHECK(first->alternative() == no_alternative);
}

TEST_CASE("a waiter for a full sublimit holds up no one of another", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models()};
  (void)l.try_acquire({.sublimit = model_a});
  run.go(caller(run, l, "a1", {.sublimit = model_a}));
  run.go(caller(run, l, "a2", {.sublimit = model_a}));
  run.go(caller(run, l, "b1", {.sublimit = model_b}));
  run.go(caller(run, l, "none", {}));
  run.time.run_for(0s);
  CHECK(run.log == std::vector<std::string>{"b1@0", "none@0"});
  run.time.run_for(1s);
  CHECK(run.log.back() == "a1@1000");
  run.time.run_for(1s);
  CHECK(run.log.back() == "a2@2000");
}

TEST_CASE("a large request of a sublimit is not overtaken by small ones of it", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models(3)};
  (void)l.try_acquire({.sublimit = model_a, .tokens = 3});
  run.go(caller(run, l, "large", {.sublimit = model_a, .tokens = 3}));
  for (int i = 0; i < 5; ++i) run.go(caller(run, l, "small", {.sublimit = model_a}));
  run.time.run_for(2999ms);
  CHECK(run.log.empty());
  run.time.run_for(1ms);
  CHECK(run.log == std::vector<std::string>{"large@3000"});
}

TEST_CASE("common limits, sublimit and alternative are taken in one step, or nothing is", "[limiter][sublimits]") {
  limits_run run;
  limiter_options o = models();
  o.rates = {{rate::per_second(1), 2, 2}};
  o.alternatives = {{.name = "x", .rates = {{rate::per_second(1), 1, 1}}},
                    {.name = "y", .rates = {{rate::per_second(1), 1, 1}}}};
  limiter l{run.io, o};
  const auto p = l.try_acquire({.sublimit = model_a, .alternatives = only_second});
  CHECK(p->alternative_name() == "y");
  CHECK_FALSE(l.try_acquire({.sublimit = model_b, .alternatives = only_second}));
  CHECK(tokens_of(l, model_b) == 1);
  CHECK(l.stats().tokens.front() == 1);
  CHECK_FALSE(l.try_acquire({.sublimit = model_a, .alternatives = only_first}));
  CHECK(l.stats().alternatives[0].tokens.front() == 1);
  CHECK(l.try_acquire({.sublimit = model_b, .alternatives = only_first}));
  CHECK(l.stats().tokens.front() == 0);
}

TEST_CASE("a waiter for a sublimit keeps no room of an alternative", "[limiter][sublimits]") {
  limits_run run;
  limiter_options o = models();
  o.alternatives = {{.name = "x", .concurrency = 1}};
  limiter l{run.io, o};
  (void)l.try_acquire({.sublimit = model_a});
  run.go(caller(run, l, "a", {.sublimit = model_a}));
  run.go(caller(run, l, "b", {.sublimit = model_b}, 500ms));
  run.time.run_for(0s);
  CHECK(run.log == std::vector<std::string>{"b@0"});
  run.time.run_for(1s);
  CHECK(run.log.back() == "a@1000");
}

TEST_CASE("places of a sublimit come back with their permits", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, {.concurrency = 9, .sublimits = {{.concurrency = 2}, {.concurrency = 1}}}};
  auto first = l.try_acquire({.sublimit = 0});
  const auto second = l.try_acquire({.sublimit = 0});
  CHECK_FALSE(l.try_acquire({.sublimit = 0}));
  const auto other = l.try_acquire({.sublimit = 1});
  CHECK(other);
  run.go(caller(run, l, "waiter", {.sublimit = 0}));
  run.time.run_for(1s);
  CHECK(run.log.empty());
  first.reset();
  run.time.run_for(0s);
  CHECK(run.log == std::vector<std::string>{"waiter@1000"});
  CHECK(l.stats().sublimits[0].held == 1);
}

TEST_CASE("a permit settles with its sublimit", "[limiter][sublimits]") {
  limits_run run;
  limiter_options o;
  o.rates = {{rate::per_second(1), 10, 10, "requests"}};
  o.sublimits = {{.rates = {{rate::per_second(1), 100, 100, "tokens"}}}};
  limiter l{run.io, o};
  auto p = l.try_acquire({.sublimit = 0, .amounts = {{"tokens", 40}}});
  CHECK(tokens_of(l, 0) == 60);
  p->settle("tokens", 10);
  CHECK(tokens_of(l, 0) == 90);
  p->settle("tokens", 110);
  CHECK(tokens_of(l, 0) == -10);
}

TEST_CASE("a grant that is never delivered goes back to its sublimit", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, {.sublimits = {{.rates = {{rate::per_second(1), 1, 0}}, .concurrency = 1}}}};
  permit kept;
  {
    net::io_context other;
    net::co_spawn(other, [&]() -> net::awaitable<void> { kept = co_await l.acquire({.sublimit = 0}); }, net::detached);
    other.poll();
    run.time.run_for(1s);  // granted, and on its way to a context that is destroyed
    CHECK(l.stats().sublimits[0].held == 1);
  }
  CHECK_FALSE(kept);
  CHECK(l.stats().sublimits[0].held == 0);
  CHECK(tokens_of(l, 0) == 1);
}

TEST_CASE("flows share a sublimit by weight", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models()};
  flow heavy{l, {.weight = 3}}, light{l, {.weight = 1}};
  (void)l.try_acquire({.sublimit = model_a});
  for (int i = 0; i < 40; ++i) {
    run.go(caller(run, l, "heavy", {.sublimit = model_a, .flow = &heavy}));
    run.go(caller(run, l, "light", {.sublimit = model_a, .flow = &light}));
  }
  run.time.run_for(20s);
  CHECK(std::ranges::count_if(run.log, [](const std::string& s) { return s.starts_with("heavy"); }) == 15);
  CHECK(std::ranges::count_if(run.log, [](const std::string& s) { return s.starts_with("light"); }) == 5);
  l.stop();
  run.time.run_for(0s);
}

TEST_CASE("sublimits change for all waiters, at once", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models(2)};
  (void)l.try_acquire({.sublimit = model_a, .tokens = 2});
  run.go(caller(run, l, "two", {.sublimit = model_a, .tokens = 2}));
  run.go(caller(run, l, "one", {.sublimit = model_a}));
  l.sublimit(model_a).set_rate(0, rate{1, 10ms});
  run.time.run_for(30ms);
  CHECK(run.log == std::vector<std::string>{"two@20", "one@30"});
  run.go(caller(run, l, "two again", {.sublimit = model_a, .tokens = 2}));
  l.sublimit(model_a).set_burst(0, 1);
  run.time.run_for(0s);
  CHECK(run.log.back() == "two again=larger than the limit allows@30");
}

TEST_CASE("a sublimit is added while others wait, and has gathered since its beginning", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models(5)};
  const time_point begin = time_source::of(run.io.get_executor()).now();
  run.time.run_for(2s);
  (void)l.try_acquire({.sublimit = model_a, .tokens = 5});
  run.go(caller(run, l, "waits", {.sublimit = model_a, .tokens = 5}));
  run.time.run_for(0s);
  const int added = l.add_sublimit({.name = "c", .rates = {{rate::per_second(1), 5}}}, begin);
  CHECK(added == 2);
  CHECK(tokens_of(l, 2) == 2);
  CHECK(l.try_acquire({.sublimit = added, .tokens = 2}));
  CHECK_FALSE(l.try_acquire({.sublimit = added}));
  CHECK(l.stats().waiting == 1);
  l.stop();
  run.time.run_for(0s);
}

TEST_CASE("the reason of a wait names the sublimit, and the estimate is a lower bound", "[limiter][sublimits]") {
  limits_run run;
  limiter_options o = models();
  o.sublimits.push_back({.concurrency = 1});
  limiter l{run.io, o};
  (void)l.try_acquire({.sublimit = model_b});
  const auto place = l.try_acquire({.sublimit = 2});
  CHECK(l.estimate({.sublimit = model_b}) == 1s);
  CHECK(l.estimate({.sublimit = model_a}) == 0s);
  run.go(caller(run, l, "b1", {.sublimit = model_b, .tag = 7}));
  run.go(caller(run, l, "b2", {.sublimit = model_b}));
  run.go(caller(run, l, "place", {.sublimit = 2}));
  run.time.run_for(0s);
  CHECK(l.estimate({.sublimit = model_b}) == 3s);
  const wait_reason why = l.why_waiting();
  CHECK(why.binds == wait_reason::cause::sublimit);
  CHECK(why.ceiling == wait_reason::cause::rate);
  CHECK(why.sublimit == model_b);
  const auto rows = l.waiting(9);
  CHECK(rows[0].tag == 7);
  CHECK(rows[0].sublimit == model_b);
  CHECK(rows[0].alternatives == 0);
  CHECK(rows[0].estimate == 1s);
  CHECK(rows[1].estimate == 2s);
  CHECK(rows[2].reason.ceiling == wait_reason::cause::concurrency);
  run.time.run_for(500ms);
  CHECK(l.stats().binding.sublimit == 500ms);
  l.stop();
  run.time.run_for(0s);
}

TEST_CASE("a deadline that a sublimit can't meet ends a request at once", "[limiter][sublimits]") {
  limits_run run;
  limiter l{run.io, models()};
  (void)l.try_acquire({.sublimit = model_a});
  const time_point now = time_source::of(run.io.get_executor()).now();
  run.go(caller(run, l, "late", {.sublimit = model_a, .deadline = now + 900ms}));
  run.go(caller(run, l, "in time", {.sublimit = model_a, .deadline = now + 1s}));
  run.time.run_for(0s);
  CHECK(run.log.size() == 1);
  CHECK(run.log.back().starts_with("late="));
  run.time.run_for(1s);
  CHECK(run.log.back() == "in time@1000");
}

TEST_CASE("256 sublimits wait at once, each with several sets of alternatives", "[limiter][sublimits]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.concurrency = 1000}, {.concurrency = 1000}};
  o.sublimits.resize(256, {.rates = {{rate::per_second(1), 1, 1}}});
  limiter l{run.io, o};
  int granted = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 256; ++i) {
      run.go([&l, &granted, i, round]() -> net::awaitable<void> {
        std::error_code ec;
        const permit p = co_await l.acquire({.sublimit = i, .alternatives = std::uint64_t(round + 1)}, ec);
        granted += ec ? 0 : 1;
      });
    }
  }
  run.time.run_for(0s);
  CHECK(granted == 256);
  run.time.run_for(1s);
  CHECK(granted == 512);
  CHECK(reason_of([&] { l.add_sublimit({}, time_point{}); }).find("as the limiter has 256") != std::string::npos);
}

TEST_CASE("sublimits that can't be are refused by name, value and range", "[limiter][sublimits]") {
  limits_run run;
  const auto refusal = [&](auto change) {
    limiter_options o = models();
    change(o);
    return reason_of([&] { limiter l{run.io, o}; });
  };
  CHECK(refusal([](auto& o) { o.sublimits.resize(257); }) ==
        "limiter_options.sublimits.size() is 257; allowed: 0 to 256");
  CHECK(refusal([](auto& o) { o.sublimits[1].concurrency = 0; }) ==
        "limiter_options.sublimits[1].concurrency is 0; allowed: 1 or more");
  CHECK(refusal([](auto& o) {
          o.sublimits[1].rates[0].burst = 0;
        }).find("limiter_options.sublimits[1].rates[0].burst is 0; allowed: 1 to 2^62") == 0);
  CHECK(refusal([](auto& o) { o.slack = 1ms; }) ==
        "limiter_options.slack is 1ms; allowed: 0s, because of the sublimits");
  limiter l{run.io, models(3)};
  CHECK(reason_of([&] { (void)l.try_acquire({.sublimit = 2}); }) == "request.sublimit is 2; allowed: -1 to 1");
  CHECK(reason_of([&] { (void)l.try_acquire({.sublimit = 0, .tokens = 4}); }) ==
        "request.tokens is 4; allowed: 1 to 3");
  CHECK(reason_of([&] { (void)l.sublimit(2); }) == "limiter.sublimit: number is 2; allowed: less than 2");
  CHECK(reason_of([&] { l.sublimit(0).set_rate(1, rate::per_second(1)); }) ==
        "sublimit_handle.set_rate: index is 1; allowed: less than 1");
  CHECK(reason_of([&] { l.sublimit(0).set_burst(0, 0); }) ==
        "sublimit_handle.set_burst: burst is 0; allowed: 1 to 2^62");
  CHECK(reason_of([&] { l.sublimit(0).set_concurrency(0); }) ==
        "sublimit_handle.set_concurrency: concurrency is 0; allowed: 1 or more");
  CHECK(reason_of([&] { l.add_sublimit({.rates = {{rate::per_second(1), 1, 1, "tokens"}}}, time_point{}); }) ==
        R"(sublimit_options.rates[0].unit is "tokens"; allowed: none, as the limiter has no units)");
  limiter plain{run.io, {.concurrency = 1}};
  CHECK(reason_of([&] { plain.add_sublimit({}, time_point{}); }).find("has no sublimits") != std::string::npos);
  CHECK(plain.try_acquire({.sublimit = 5}));
}
