// A limiter of which each permit takes from one of several alternatives.
#include "canigo/flow.hpp"
#include "canigo/limiter.hpp"
#include "canigo/semaphore.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace canigo;
using namespace std::chrono_literals;

namespace alternatives_tests {

constexpr std::uint64_t only_a = 1, only_b = 2, only_c = 4;

/// Alternatives a, b, c, … of so many tokens a second, full.
limiter_options keys(std::vector<std::int64_t> per_second, std::uint64_t burst = 1) {
  limiter_options o;
  for (const std::int64_t r : per_second) {
    o.alternatives.push_back({.name = std::string(1, static_cast<char>('a' + o.alternatives.size())),
                              .rates = {{rate::per_second(r), burst, burst}}});
  }
  return o;
}

/// Notes its name, and the alternative that it got.
auto key_caller(limits_run& run, limiter& l, std::string name, request r, duration hold = 0s) {
  return [&run, &l, name, r, hold]() -> net::awaitable<void> {
    std::error_code ec;
    const permit p = co_await l.acquire(r, ec);
    run.note(ec ? name + "=" + ec.message() : name + std::string{p.alternative_name()});
    co_await sleep_for(hold);
  };
}

std::string names_at_once(limiter& l, int n, const request& r = {}) {
  std::string names;
  for (int i = 0; i < n; ++i) {
    const auto p = l.try_acquire(r);
    names += p ? std::string{p->alternative_name()} : "-";
  }
  return names;
}

std::vector<std::int64_t> tokens_of(const limiter& l) {
  std::vector<std::int64_t> tokens;
  for (const auto& a : l.stats().alternatives) tokens.push_back(a.tokens.empty() ? -1 : a.tokens.front());
  return tokens;
}

using levels = std::vector<std::int64_t>;

}  // namespace alternatives_tests

using namespace alternatives_tests;

TEST_CASE("a permit comes from one alternative, and says which", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1})};
  const permit first = l.try_acquire().value();
  const permit second = l.try_acquire().value();
  CHECK(first.alternative() == 0);
  CHECK(first.alternative_name() == "a");
  CHECK(second.alternative() == 1);
  CHECK(second.alternative_name() == "b");
  CHECK_FALSE(l.try_acquire());
  CHECK(tokens_of(l) == levels{0, 0});
  const auto s = l.stats();
  CHECK(s.held == 2);
  CHECK(s.alternatives[0].held == 1);
  CHECK(s.alternatives[1].granted == 1);
  CHECK(s.alternatives[1].name == "b");
}

TEST_CASE("a permit of a limit without alternatives comes from none", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, {.concurrency = 1}};
  const permit p = l.try_acquire({.alternatives = 8}).value();
  CHECK(p.alternative() == no_alternative);
  CHECK(p.alternative_name().empty());
  CHECK(permit{}.alternative() == no_alternative);
  CHECK(l.stats().alternatives.empty());
}

TEST_CASE("the lowest number of prefer goes first, however little room it has", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1, 1}, 4);
  o.alternatives[0].prefer = 2;
  o.alternatives[2].prefer = 2;
  o.alternatives[1].rates[0].initial_tokens = 1;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 4) == "baca");
}

TEST_CASE("of equal ones the one with most of its burst left serves, then the first", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1}, 4);
  o.alternatives[1].rates[0] = {rate::per_second(1), 8, 8};
  limiter l{run.io, o};
  // 4/4 8/8, 3/4 8/8, 3/4 7/8, 3/4 6/8, 2/4 6/8, 2/4 5/8, 2/4 4/8, …
  CHECK(names_at_once(l, 12) == "abbabbabbabb");
  CHECK(names_at_once(l, 1) == "-");
}

TEST_CASE("the fullest of its limits says how much room an alternative has", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.name = "a", .rates = {{rate::per_second(1), 100, 100}}, .concurrency = 4},
                    {.name = "b", .concurrency = 10}};
  limiter l{run.io, o};
  std::vector<permit> held;
  std::string names;
  for (int i = 0; i < 6; ++i) {
    held.push_back(l.try_acquire().value());
    names += held.back().alternative_name();
  }
  CHECK(names == "abbbab");  // 4/4 10/10, 3/4 10/10, 3/4 9/10, 3/4 8/10, 3/4 7/10, 2/4 7/10
}

TEST_CASE("an alternative goes only with room in all of its limits", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.name = "a", .rates = {{rate::per_second(1), 5, 5}, {rate::per_minute(1), 1, 1}}},
                    {.name = "b", .rates = {{rate::per_second(1), 5, 5}}, .concurrency = 1, .prefer = 2}};
  limiter l{run.io, o};
  const permit first = l.try_acquire().value(), second = l.try_acquire().value();
  CHECK(first.alternative_name() == "a");
  CHECK(second.alternative_name() == "b");
  CHECK_FALSE(l.try_acquire());  // a lacks its minute, b its place
  CHECK(tokens_of(l) == levels{4, 4});
}

TEST_CASE("the common limits and an alternative are taken in one step, or nothing is", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({10, 10}, 5);
  o.rates = {{rate::per_second(1), 2, 2}};
  o.concurrency = 3;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 3) == "ab-");
  CHECK(tokens_of(l) == levels{4, 4});
  run.time.run_for(1s);
  CHECK_FALSE(l.try_acquire({.tokens = 2}));
  CHECK(l.stats().tokens == levels{1});
}

TEST_CASE("a place goes back to the alternative that it came from", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.name = "a", .concurrency = 1}, {.name = "b", .concurrency = 1}};
  limiter l{run.io, o};
  permit a = l.try_acquire().value(), b = l.try_acquire().value();
  b.release();
  CHECK(l.stats().alternatives[0].held == 1);
  CHECK(l.stats().alternatives[1].held == 0);
  const permit again = l.try_acquire().value();
  CHECK(again.alternative_name() == "b");
  a = {};
  CHECK(names_at_once(l, 1) == "a");
}

TEST_CASE("a permit settles with its alternative and with the common rates", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1}, 100);
  o.rates = {{rate::per_second(1), 1000, 1000}};
  limiter l{run.io, o};
  permit a = l.try_acquire({.tokens = 10}).value();
  permit b = l.try_acquire({.tokens = 20}).value();
  a.settle(60);
  b.settle(5);
  CHECK(tokens_of(l) == levels{40, 95});
  CHECK(l.stats().tokens == levels{935});
}

TEST_CASE("alternatives count units of their own", "[limiter][alternatives]") {
  limits_run run;
  const rate r = rate::per_second(1);
  limiter_options o{.rates = {{r, 10, 10, "requests"}}};
  o.alternatives = {{.name = "a", .rates = {{r, 100, 100, "tokens"}}},
                    {.name = "b", .rates = {{r, 5, 5, "requests"}, {r, 300, 300, "tokens"}}}};
  limiter l{run.io, o};
  permit p = l.try_acquire({.amounts = {{"tokens", 200}}}).value();
  CHECK(p.alternative_name() == "b");  // more than a can ever give
  p.settle("tokens", 250);
  CHECK(l.stats().alternatives[1].tokens == levels{4, 50});
  CHECK(l.stats().alternatives[0].tokens == levels{100});
  CHECK(l.stats().tokens == levels{9});
  CHECK(refusal_of([&] { (void)l.try_acquire({.amounts = {{"tokens", 301}}}); }).find("0 to 300") != std::string::npos);
  CHECK(refusal_of([&] {
          (void)l.try_acquire({.amounts = {{"tokens", 200}}, .alternatives = only_a});
        }).find("0 to 100") != std::string::npos);
}

TEST_CASE("a request takes only from the alternatives that may serve it", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1, 1}, 2)};
  CHECK(names_at_once(l, 3, {.alternatives = only_b}) == "bb-");
  CHECK(names_at_once(l, 3, {.alternatives = only_b | only_c}) == "cc-");
  CHECK(names_at_once(l, 3) == "aa-");
}

TEST_CASE("waiters take the first room that fits them, in their order", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({10, 5});
  o.priorities = 2;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 2) == "ab");
  for (const char* name : {"1", "2", "3", "4"}) run.go(key_caller(run, l, name, {.priority = 1}));
  run.go(key_caller(run, l, "x", {.priority = 0}));
  run.time.run();
  CHECK(run.log == log_lines{"xa@100", "1a@200", "2b@200", "3a@300", "4a@400"});
}

TEST_CASE("who waits for one alternative holds up nobody for another", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 10})};
  CHECK(names_at_once(l, 2) == "ab");
  for (int i = 0; i < 3; ++i) run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  for (int i = 0; i < 3; ++i) run.go(key_caller(run, l, "2", {.alternatives = only_b}));
  run.go(key_caller(run, l, "3", {}));
  run.time.run();
  CHECK(run.log == log_lines{"2b@100", "2b@200", "2b@300", "3b@400", "1a@1000", "1a@2000", "1a@3000"});
}

TEST_CASE("a newcomer takes what no waiter waits for, at once", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1}, 2)};
  CHECK(names_at_once(l, 2, {.alternatives = only_a}) == "aa");
  run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  run.time.run_for(0s);
  CHECK(l.stats().waiting == 1);
  CHECK(names_at_once(l, 2) == "bb");
  run.time.run_for(2500ms);
  CHECK(run.log == log_lines{"1a@1000"});
  CHECK(names_at_once(l, 2) == "ba");
}

TEST_CASE("no stream of small ones starves a large one at its alternative", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({10, 10}, 10)};
  CHECK(l.try_acquire({.tokens = 10, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 10, .alternatives = only_b}));
  run.go(key_caller(run, l, "large", {.tokens = 10, .alternatives = only_a}));
  bool stop = false;
  int at_a = 0, at_b = 0;
  for (int i = 0; i < 5; ++i) {
    run.go([&]() -> net::awaitable<void> {
      while (!stop) {
        const permit p = co_await l.acquire();
        ++(p.alternative() == 0 ? at_a : at_b);
      }
    });
  }
  run.time.run_for(999ms);
  CHECK(at_a == 0);
  CHECK(at_b == 9);
  run.time.run_for(1ms);
  CHECK(run.log == log_lines{"largea@1000"});
  run.time.run_for(1s);
  CHECK(at_a == 10);
  stop = true;
  run.time.run();
}

TEST_CASE("a large one that only some of its set can ever serve keeps only these", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1}, 4);
  o.alternatives[1].rates[0] = {rate::per_second(1), 2, 0};
  limiter l{run.io, o};
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  run.go(key_caller(run, l, "large", {.tokens = 4}));
  run.go(key_caller(run, l, "small", {}));
  run.time.run();
  CHECK(run.log == log_lines{"smallb@1000", "largea@4000"});
}

TEST_CASE("who lacks only a common limit keeps it from all behind it", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({100, 100}, 10);
  o.rates = {{rate::per_second(10), 10, 10}};
  limiter l{run.io, o};
  CHECK(l.try_acquire({.tokens = 10, .alternatives = only_b}));
  run.go(key_caller(run, l, "large", {.tokens = 8, .alternatives = only_a}));
  for (int i = 0; i < 3; ++i) run.go(key_caller(run, l, "small", {.alternatives = only_b}));
  run.time.run_for(1ms);
  CHECK_FALSE(l.try_acquire({.alternatives = only_b}));
  run.time.run();
  CHECK(run.log == log_lines{"largea@800", "smallb@900", "smallb@1000", "smallb@1100"});
}

TEST_CASE("who lacks an alternative holds no common limit", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 100}, 1);
  o.rates = {{rate::per_second(10), 1, 1}};
  limiter l{run.io, o};
  CHECK(l.try_acquire({.alternatives = only_a}));
  run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  for (int i = 0; i < 3; ++i) run.go(key_caller(run, l, "2", {.alternatives = only_b}));
  run.time.run();
  CHECK(run.log == log_lines{"2b@100", "2b@200", "2b@300", "1a@1000"});
}

TEST_CASE("a pause of an alternative stops that one alone", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({10, 10})};
  alternative_handle a = l.alternative("a");
  a.pause_until(run.time.now() + 1s);
  CHECK(names_at_once(l, 2) == "b-");
  for (int i = 0; i < 2; ++i) run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  for (int i = 0; i < 2; ++i) run.go(key_caller(run, l, "2", {}));
  run.time.run();
  CHECK(run.log == log_lines{"2b@100", "2b@200", "1a@1000", "1a@1100"});
  a.pause();
  a.extend_pause(run.time.now() + 1s);
  run.go(key_caller(run, l, "3", {.alternatives = only_a}));
  run.time.run_for(1h);
  CHECK(run.log.size() == 4);
  CHECK(l.stats().alternatives[0].paused_until == time_point::max());
  a.resume();
  run.time.run();
  CHECK(run.log.size() == 5);
}

TEST_CASE("a pause of the limiter stops all alternatives", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({10, 10})};
  l.pause_until(run.time.now() + 500ms);
  CHECK(names_at_once(l, 1) == "-");
  run.go(key_caller(run, l, "1", {}));
  run.time.run();
  CHECK(run.log == log_lines{"1a@500"});
}

TEST_CASE("a closed alternative ends those that it alone could serve", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1})};
  CHECK(names_at_once(l, 2) == "ab");
  run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  run.go(key_caller(run, l, "2", {}));
  run.go(key_caller(run, l, "3", {.alternatives = only_b}));
  run.time.run_for(100ms);
  l.alternative(0).close();
  l.alternative(0).close();
  run.time.run();
  CHECK(run.log == log_lines{"1=" + make_error_code(errc::stopped).message() + "@100", "2b@1000", "3b@2000"});
  CHECK(l.stats().alternatives[0].is_closed);
  std::error_code ec;
  run.go([&]() -> net::awaitable<void> { (void)co_await l.acquire({.alternatives = only_a}, ec); });
  run.time.run();
  CHECK(ec == errc::stopped);
}

TEST_CASE("limits of an alternative change for all waiters, at once", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1});
  o.alternatives[0].concurrency = 3;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 2) == "ab");
  for (int i = 0; i < 4; ++i) run.go(key_caller(run, l, "1", {.alternatives = only_a}, 10s));
  run.time.run_for(100ms);
  l.alternative(0).set_rate(0, rate::per_second(10));
  run.time.run_for(1s);
  CHECK(run.log.size() == 3);  // the cap
  l.alternative(0).set_concurrency(4);
  run.time.run_for(1s);
  CHECK(run.log.size() == 4);
  l.alternative(1).set_burst(0, 5);
  run.time.run_for(10s);
  CHECK(tokens_of(l) == levels{1, 5});
  l.alternative(1).lower_tokens(0, 2);
  CHECK(tokens_of(l) == levels{1, 2});
}

TEST_CASE("a waiter that a smaller burst leaves no alternative ends as too large", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1}, 4)};
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_b}));
  run.go(key_caller(run, l, "both", {.tokens = 3}));
  run.go(key_caller(run, l, "one", {.tokens = 3, .alternatives = only_a}));
  run.go(key_caller(run, l, "small", {.alternatives = only_a}));
  run.time.run_for(100ms);
  CHECK(run.log.empty());
  l.alternative(0).set_burst(0, 2);
  run.time.run();
  CHECK(run.log ==
        log_lines{"one=" + make_error_code(errc::too_large).message() + "@100", "smalla@1000", "bothb@3000"});
}

TEST_CASE("waiters whose set changes keep their order", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1}, 4)};
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_b}));
  for (int i = 0; i < 6; ++i) {
    run.go(
        key_caller(run, l, std::to_string(i), {.tokens = i % 2 == 0 ? 3u : 2u, .alternatives = i == 5 ? only_a : 3u}));
  }
  run.time.run_for(100ms);
  l.alternative(1).set_burst(0, 2);
  run.time.run_for(100ms);
  l.alternative(1).set_burst(0, 4);
  run.time.run_for(1min);
  CHECK(run.names() == "0a1b2b3a4a5a");
}

TEST_CASE("an estimate is the least over the alternatives, and a lower bound", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 2}, 4)};
  CHECK(l.estimate({}) == 0s);
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_b}));
  CHECK(l.estimate({}) == 500ms);
  CHECK(l.estimate({.alternatives = only_a}) == 1s);
  CHECK(l.estimate({.tokens = 4}) == 2s);
  l.alternative(1).pause_until(run.time.now() + 10s);
  CHECK(l.estimate({}) == 1s);
  CHECK(l.estimate({.alternatives = only_b}) == 10s);
  l.alternative(1).pause();
  CHECK(l.estimate({.alternatives = only_b}) == 500ms);  // it may end at any moment
  l.alternative(1).resume();
  for (int i = 0; i < 6; ++i) run.go(key_caller(run, l, "1", {}));
  run.time.run_for(0s);
  CHECK(l.estimate({.alternatives = only_a}) == 1s);  // the others may all go to b
  const duration bound = l.estimate({});
  CHECK(bound > 1500ms);
  CHECK(bound <= 2500ms);
  run.go(key_caller(run, l, "last", {}));
  run.time.run();
  CHECK(run.log.back() == "lastb@2500");
}

TEST_CASE("a deadline that no alternative can meet ends a request at once", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 2})};
  CHECK(names_at_once(l, 2) == "ab");
  run.go(key_caller(run, l, "1", {.deadline = run.time.now() + 499ms}));
  run.go(key_caller(run, l, "2", {.deadline = run.time.now() + 500ms}));
  run.go(key_caller(run, l, "3", {.deadline = run.time.now() + 999ms, .alternatives = only_a}));
  run.time.run();
  const std::string message = make_error_code(errc::deadline_unreachable).message();
  CHECK(run.log == log_lines{"1=" + message + "@0", "3=" + message + "@0", "2b@500"});
}

TEST_CASE("a deadline that passes lets the next one of its set go", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1}, 4)};
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_b}));
  CHECK(l.alternative(0).name() == "a");
  run.go(key_caller(run, l, "large", {.tokens = 2, .deadline = run.time.now() + 2500ms, .alternatives = only_a}));
  run.go(key_caller(run, l, "small", {.alternatives = only_a}));
  run.time.run_for(1s);
  l.alternative(0).lower_tokens(0, 0);
  run.time.run();
  CHECK(run.log == log_lines{"large=" + make_error_code(errc::timed_out).message() + "@2500", "smalla@2500"});
}

TEST_CASE("a cancelled waiter gives up what it kept, wherever it stands", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1}, 4)};
  CHECK(l.try_acquire({.tokens = 4, .alternatives = only_a}));
  CHECK(l.try_acquire({.tokens = 3, .alternatives = only_b}));
  std::array<net::cancellation_signal, 2> signals;
  std::array<std::error_code, 2> ended;
  run.go([&]() -> net::awaitable<void> { (void)co_await l.acquire({.tokens = 4}); }, signals[0], ended[0]);
  run.go([&]() -> net::awaitable<void> { (void)co_await l.acquire({.tokens = 4, .alternatives = only_a}); }, signals[1],
         ended[1]);
  run.go(key_caller(run, l, "1", {.alternatives = only_b}));
  run.go(key_caller(run, l, "2", {.alternatives = only_a}));
  run.time.run_for(500ms);
  CHECK(run.log.empty());
  signals[0].emit(net::cancellation_type::terminal);
  run.time.run_for(0s);
  CHECK(ended[0] == net::error::operation_aborted);
  CHECK(run.log == log_lines{"1b@500"});
  signals[1].emit(net::cancellation_type::terminal);
  run.time.run();
  CHECK(ended[1] == net::error::operation_aborted);
  CHECK(run.log == log_lines{"1b@500", "2a@1000"});
  CHECK(l.stats().cancelled == 2);
}

TEST_CASE("a grant that is never delivered goes back to its alternative", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.name = "a", .rates = {{rate::per_second(1), 1, 0}}, .concurrency = 1}};
  o.rates = {{rate::per_second(1), 5, 5}};
  auto l = std::make_unique<limiter>(run.io, o);
  net::cancellation_signal signal;
  std::error_code ended;
  run.go([&]() -> net::awaitable<void> { (void)co_await l->acquire(); }, signal, ended);
  run.time.run_for(999ms);
  permit kept;
  {
    net::io_context other;
    net::co_spawn(other, [&]() -> net::awaitable<void> { kept = co_await l->acquire(); }, net::detached);
    other.poll();
    signal.emit(net::cancellation_type::terminal);
    run.time.run_for(1ms);  // granted, and on its way to a context that is destroyed
    CHECK(l->stats().alternatives[0].held == 1);
  }
  CHECK(ended == net::error::operation_aborted);
  CHECK_FALSE(kept);
  CHECK(l->stats().alternatives[0].held == 0);
  CHECK(l->stats().alternatives[0].tokens == levels{1});
  CHECK(l->stats().held == 0);
}

TEST_CASE("stop ends waiters for all alternatives, and permits outlive the limiter", "[limiter][alternatives]") {
  limits_run run;
  auto l = std::make_unique<limiter>(run.io, keys({1, 1}));
  std::optional<permit> a = l->try_acquire(), b = l->try_acquire();
  run.go(key_caller(run, *l, "1", {.alternatives = only_a}));
  run.go(key_caller(run, *l, "2", {}));
  run.time.run_for(0s);
  l->stop();
  run.time.run_for(0s);
  const std::string message = make_error_code(errc::stopped).message();
  CHECK(run.log == log_lines{"1=" + message + "@0", "2=" + message + "@0"});
  CHECK_FALSE(l->try_acquire());
  l.reset();
  a->settle(3);
  CHECK(a->alternative_name() == "a");
  a.reset();
  CHECK(b->alternative_name() == "b");
}

TEST_CASE("a limiter with alternatives is destroyed with waiters, and with its context", "[limiter][alternatives]") {
  std::optional<permit> kept;
  {
    limits_run run;
    limiter l{run.io, keys({1, 1})};
    kept = l.try_acquire();
    for (int i = 0; i < 4; ++i) run.go(key_caller(run, l, "1", {.alternatives = i % 2 == 0 ? only_a : 3u}));
    run.time.run_for(100ms);
  }
  CHECK(kept->alternative_name() == "a");
  kept.reset();
  limits_run run;
  auto l = std::make_unique<limiter>(run.io, keys({1, 1}));
  CHECK(names_at_once(*l, 2) == "ab");
  run.go(key_caller(run, *l, "1", {}));
  run.time.run_for(0s);
  l.reset();
  run.time.run();
  CHECK(run.log == log_lines{"1=" + make_error_code(errc::stopped).message() + "@0"});
}

TEST_CASE("the reason of a wait names the alternative that goes first", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 2});
  o.alternatives[0].concurrency = 1;
  o.concurrency = 2;
  limiter l{run.io, o};
  permit a = l.try_acquire().value(), b = l.try_acquire({.alternatives = only_b}).value();
  b.release();
  run.go(key_caller(run, l, "1", {.tag = 7}));
  run.time.run_for(100ms);
  using cause = wait_reason::cause;
  wait_reason why = l.why_waiting();
  CHECK(why.binds == cause::alternatives);
  CHECK(why.alternative == 1);
  CHECK(why.ceiling == cause::rate);
  CHECK(why.index == 0);
  CHECK(why.until == run.time.now() + 400ms);
  l.alternative(1).pause();
  why = l.why_waiting();
  CHECK(why.ceiling == cause::concurrency);
  CHECK(why.alternative == 0);
  CHECK(why.until == time_point::max());
  const auto rows = l.waiting(5);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].tag == 7);
  CHECK(rows[0].alternatives == 3);
  CHECK(rows[0].reason.binds == cause::alternatives);
  CHECK(rows[0].estimate == 400ms);
  run.time.run_for(900ms);
  CHECK(l.stats().binding.alternatives == 1s);
  a.release();
  run.time.run_for(0s);
  CHECK(l.why_waiting().binds == cause::none);
}

TEST_CASE("waiters of each set are listed with their own turns", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 10})};
  CHECK(names_at_once(l, 2) == "ab");
  for (std::uint64_t i = 0; i < 4; ++i) {
    run.go(key_caller(run, l, "1", {.tag = i, .alternatives = i % 2 == 0 ? only_a : only_b}));
  }
  run.time.run_for(0s);
  std::vector<duration> estimates;
  for (const waiting_request& w : l.waiting(9)) estimates.push_back(w.estimate);
  CHECK(estimates == std::vector<duration>{1s, 100ms, 2s, 200ms});
}

TEST_CASE("waiters rise with age at their alternatives", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1});
  o.priorities = 2;
  o.ageing = 2s;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 2) == "ab");
  run.go(key_caller(run, l, "old", {.priority = 1, .alternatives = only_a}));
  bool stop = false;
  run.go([&]() -> net::awaitable<void> {
    while (!stop) (void)co_await l.acquire({.alternatives = only_a});
  });
  run.time.run_for(10s);
  CHECK(run.log == log_lines{"olda@2000"});
  stop = true;
  run.time.run();
}

TEST_CASE("a full queue evicts the oldest of all sets, or the least important", "[limiter][alternatives]") {
  const bool is_oldest = GENERATE(true, false);
  limits_run run;
  limiter_options o = keys({1, 1});
  o.priorities = 2;
  o.queue_limit = 2;
  o.on_overflow = is_oldest ? overflow::evict_oldest : overflow::evict_least_important;
  limiter l{run.io, o};
  CHECK(names_at_once(l, 2) == "ab");
  run.go(key_caller(run, l, "1", {.priority = 0, .alternatives = only_a}));
  run.go(key_caller(run, l, "2", {.priority = 1, .alternatives = only_b}));
  run.go(key_caller(run, l, "3", {.priority = 0, .alternatives = only_b}));
  run.time.run_for(0s);
  REQUIRE(run.log.size() == 1);
  CHECK(run.log[0].substr(0, 1) == (is_oldest ? "1" : "2"));
  run.time.run();
}

TEST_CASE("an overloaded limiter sheds waiters for alternatives", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({1, 1});
  o.shedding = {.target = 100ms, .interval = 500ms};
  limiter l{run.io, o};
  CHECK(names_at_once(l, 2) == "ab");
  for (int i = 0; i < 5; ++i) run.go(key_caller(run, l, "1", {.alternatives = only_a}));
  run.time.run();
  CHECK(l.stats().shed > 0);
  CHECK(l.stats().granted == 2 + 5 - l.stats().shed);
}

TEST_CASE("flows share the alternatives by weight, whatever sets they use", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({50, 50});
  limiter l{run.io, o};
  flow heavy{l, {.weight = 3}}, light{l, {.weight = 1}};
  bool stop = false;
  int n[2][2] = {};
  for (int i = 0; i < 40; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      while (!stop) {
        // Some of each flow's may go anywhere, others only to one.
        const std::uint64_t set = i % 4 == 0 ? only_a : i % 4 == 1 ? only_b : 3u;
        const permit p = co_await l.acquire({.flow = i < 20 ? &heavy : &light, .alternatives = set});
        ++n[i < 20 ? 0 : 1][p.alternative()];
      }
    });
  }
  run.time.run_for(40s);
  CHECK(n[0][0] + n[0][1] + n[1][0] + n[1][1] >= 4000);
  CHECK(n[0][0] + n[0][1] >= 2990);
  CHECK(n[0][0] + n[0][1] <= 3010);
  stop = true;
  run.time.run();
}

TEST_CASE("a flow that waited for its alternative has no credit for that", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 100})};
  flow slow{l, {}}, fast{l, {}};
  bool stop = false;
  int n[2][2] = {};
  for (int i = 0; i < 8; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      while (!stop) {
        std::error_code ec;
        const permit p = co_await l.acquire({.flow = i < 4 ? &slow : &fast, .alternatives = i < 4 ? only_a : 3u}, ec);
        if (ec) co_return;
        ++n[i < 4 ? 0 : 1][p.alternative()];
      }
    });
  }
  run.time.run_for(100s);
  CHECK(n[0][0] >= 98);  // what a gives, as the other one has b
  CHECK(n[1][1] >= 9990);
  l.alternative(1).pause();
  const int before = n[1][0];
  run.time.run_for(100s);
  CHECK(n[1][0] - before >= 49);  // and now they share a
  CHECK(n[1][0] - before <= 51);
  stop = true;
  l.stop();
  run.time.run();
}

TEST_CASE("flows of one set share it by weight while another set goes past them", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({10, 100})};
  flow heavy{l, {.weight = 3}}, light{l, {.weight = 1}}, other{l, {}};
  bool stop = false;
  int n[3] = {};
  for (int i = 0; i < 12; ++i) {
    run.go([&, i]() -> net::awaitable<void> {
      const flow* const of[] = {&heavy, &light, &other};
      while (!stop) {
        std::error_code ec;
        (void)co_await l.acquire({.flow = of[i % 3], .alternatives = i % 3 == 2 ? only_b : only_a}, ec);
        if (ec) co_return;
        ++n[i % 3];
      }
    });
  }
  run.time.run_for(40s);
  CHECK(n[0] >= 299);
  CHECK(n[0] <= 302);
  CHECK(n[1] >= 99);
  CHECK(n[2] >= 3999);
  stop = true;
  l.stop();
  run.time.run_for(1s);
}

TEST_CASE("the ceiling of a flow is one for all its sets, in the order of its requests", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1000, 1000})};
  flow f{l, {.rates = {{rate::per_second(1), 5, 5}}, .concurrency = 3}};
  CHECK(l.try_acquire({.tokens = 1, .flow = &f}));
  CHECK(f.stats().available == levels{4});
  for (int i = 0; i < 4; ++i) {
    run.time.run_for(1ms);
    CHECK(l.try_acquire({.flow = &f, .alternatives = i % 2 == 0 ? only_a : only_b}));
  }
  run.go(key_caller(run, l, "1", {.flow = &f, .alternatives = only_a}));
  run.go(key_caller(run, l, "2", {.flow = &f, .alternatives = only_b}));
  run.go(key_caller(run, l, "3", {.flow = &f, .alternatives = only_a}));
  run.go(key_caller(run, l, "x", {.alternatives = only_b}));
  run.time.run();
  CHECK(run.names() == "xb1a2b3a");
  CHECK(f.stats().waiting == 0);
  CHECK(f.stats().granted == 8);
}

TEST_CASE("a flow with waiters of several sets is paused, closed and counted as one", "[limiter][alternatives]") {
  limits_run run;
  limiter l{run.io, keys({1, 1})};
  auto f = std::make_unique<flow>(l, flow_options{.queue_limit = 3});
  CHECK(names_at_once(l, 2) == "ab");
  for (int i = 0; i < 4; ++i) {
    run.go(key_caller(run, l, "f", {.flow = f.get(), .alternatives = i % 3 == 0 ? 3u : std::uint64_t(i % 3)}));
  }
  run.time.run_for(0s);
  CHECK(f->stats().waiting == 3);
  CHECK(run.log == log_lines{"f=" + make_error_code(errc::queue_full).message() + "@0"});
  f->pause_until(run.time.now() + 5s);
  run.time.run_for(4s);
  CHECK(f->stats().waiting == 3);
  CHECK(names_at_once(l, 2) == "ab");
  run.time.run_for(1001ms);
  CHECK(f->stats().waiting == 1);
  f.reset();
  run.time.run_for(0s);
  CHECK(run.log.back() == "f=" + make_error_code(errc::stopped).message() + "@5001");
  flow next{l, {}};  // takes the rows again
  run.go(key_caller(run, l, "n", {.flow = &next, .alternatives = only_b}));
  run.time.run();
  CHECK(run.log.back().substr(0, 2) == "nb");
}

TEST_CASE("64 alternatives serve, and 1,024 sets wait", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  for (int i = 0; i < 64; ++i) o.alternatives.push_back({.rates = {{rate::per_hour(1), 1, 1}}});
  limiter l{run.io, o};
  std::vector<permit> held;
  for (std::size_t i = 0; i < 64; ++i) {
    held.push_back(l.try_acquire({.alternatives = std::uint64_t{1} << i}).value());
    CHECK(held.back().alternative() == i);
  }
  int full = 0;
  for (std::uint64_t set = 1; set <= 1'028; ++set) {
    run.go([&, set]() -> net::awaitable<void> {
      std::error_code ec;
      (void)co_await l.acquire({.alternatives = set}, ec);
      full += ec == errc::queue_full ? 1 : 0;
    });
  }
  run.time.run_for(0s);
  CHECK(full == 4);
  CHECK(l.stats().waiting == 1'024);
  run.time.run_for(1h);
  CHECK(l.stats().waiting < 1'024);
  l.stop();
  run.time.run_for(0s);
}

TEST_CASE("options and requests that can't be are refused by name, value and range", "[limiter][alternatives]") {
  limits_run run;
  const auto refusal = [&](auto change) {
    limiter_options o = keys({1, 1});
    change(o);
    return reason_of([&] { limiter l{run.io, o}; });
  };
  CHECK(refusal([](auto& o) { o.alternatives.resize(65); }) ==
        "limiter_options.alternatives.size() is 65; allowed: 0 to 64");
  CHECK(refusal([](auto& o) { o.alternatives[1].concurrency = 0; }) ==
        "limiter_options.alternatives[1].concurrency is 0; allowed: 1 or more");
  CHECK(refusal([](auto& o) { o.alternatives[1].name = "a"; }) ==
        R"(limiter_options.alternatives[1].name is "a" again; allowed: a name that no other one has)");
  CHECK(refusal([](auto& o) {
          o.alternatives[1].rates[0].burst = 0;
        }).find("limiter_options.alternatives[1].rates[0].burst is 0; allowed: 1 to 2^62") == 0);
  CHECK(refusal([](auto& o) { o.alternatives[0].rates.resize(17, o.alternatives[0].rates[0]); }) ==
        "limiter_options.alternatives[0].rates.size() is 17; allowed: 0 to 16");
  CHECK(refusal([](auto& o) { o.share = shared_cap{{.permits = 1}}; }) ==
        "limiter_options.share is a cap; allowed: none, because of the alternatives");
  CHECK(refusal([](auto& o) { o.slack = 1ms; }) ==
        "limiter_options.slack is 1ms; allowed: 0s, because of the alternatives");
  CHECK(refusal([](auto& o) { o.mode = enforcement::shadow; }) ==
        "limiter_options.mode is shadow; allowed: enforce, because of the alternatives");

  limiter l{run.io, keys({1, 1}, 3)};
  CHECK(reason_of([&] { l.set_mode(enforcement::shadow); }).find("enforce, because of the alternatives") !=
        std::string::npos);
  CHECK(reason_of([&] { (void)l.try_acquire({.alternatives = 4}); }) ==
        "request.alternatives is 4; allowed: a set with an alternative of 0 to 1");
  CHECK(reason_of([&] { (void)l.try_acquire({.tokens = 4}); }) == "request.tokens is 4; allowed: 1 to 3");
  CHECK(reason_of([&] { (void)l.estimate({.alternatives = 0}); }) ==
        "request.alternatives is 0; allowed: a set with an alternative of 0 to 1");
  CHECK(reason_of([&] { (void)l.alternative(2); }) == "limiter.alternative: index is 2; allowed: less than 2");
  CHECK(reason_of([&] { (void)l.alternative("c"); }) == R"(limiter.alternative: name is "c"; allowed: "a", "b")");
  CHECK(reason_of([&] { l.alternative(0).set_rate(1, rate::per_second(1)); }) ==
        "alternative_handle.set_rate: index is 1; allowed: less than 1");
  CHECK(reason_of([&] { l.alternative(0).set_burst(0, 0); }) ==
        "alternative_handle.set_burst: burst is 0; allowed: 1 to 2^62");
  CHECK(reason_of([&] { l.alternative(0).set_concurrency(0); }) ==
        "alternative_handle.set_concurrency: concurrency is 0; allowed: 1 or more");
  CHECK(reason_of([&] { l.alternative(0).lower_tokens(1, 0); }) ==
        "alternative_handle.lower_tokens: index is 1; allowed: less than 1");
  std::error_code ec;
  run.go([&]() -> net::awaitable<void> { (void)co_await l.acquire({.alternatives = 4}, ec); });
  run.time.run();
  CHECK(ec == errc::invalid_argument);
  CHECK(l.stats().granted == 0);
  l.alternative(0).close();
  CHECK(l.try_acquire({.tokens = 1}));
}

TEST_CASE("a permit that moves takes its place and tokens of the other alternative, and the first one has them back",
          "[limiter][alternatives]") {
  limits_run run;
  limiter_options o;
  o.alternatives = {{.name = "a", .rates = {{rate::per_hour(1), 4, 4}}, .concurrency = 1},
                    {.name = "b", .rates = {{rate::per_hour(1), 4, 4}}, .concurrency = 1}};
  limiter l{run.io, o};
  const auto left = [&](std::size_t i) { return l.stats().alternatives[i].tokens[0]; };
  const auto held = [&](std::size_t i) { return l.stats().alternatives[i].held; };
  std::optional<permit> p = l.try_acquire({.tokens = 3});
  REQUIRE(p);
  CHECK(p->alternative_name() == "a");
  std::optional<permit> next;
  run.go([&]() -> net::awaitable<void> { next = co_await l.acquire({.tokens = 4, .alternatives = only_a}); });
  run.time.run();
  CHECK_FALSE(next);
  p->move_to(1);
  run.time.run();
  CHECK(p->alternative_name() == "b");
  CHECK(next);
  CHECK(left(0) == 0);
  CHECK(left(1) == 1);
  CHECK(held(0) == 1);
  CHECK(held(1) == 1);
  p->settle(1);
  CHECK(left(1) == 3);
  // Beyond its cap, and into debt.
  next->move_to(1);
  CHECK(left(0) == 4);
  CHECK(left(1) == -1);
  CHECK(held(1) == 2);
  next->move_to(1);
  CHECK(held(1) == 2);
  next.reset();
  p.reset();
  CHECK(held(0) + held(1) + l.stats().held == 0);
  std::vector<std::uint64_t> granted;
  for (const auto& a : l.stats().alternatives) granted.push_back(a.granted);
  CHECK(granted == std::vector<std::uint64_t>{0, 2});
  permit last = *l.try_acquire({.alternatives = only_a});
  CHECK(reason_of([&] { last.move_to(2); }) == "permit.move_to: alternative is 2; allowed: less than 2");
  semaphore plain{run.io, {.permits = 1}};
  permit of_plain = *plain.try_acquire();
  CHECK(reason_of([&] { of_plain.move_to(0); }) == "permit.move_to: alternative is 0; allowed: none");
}

TEST_CASE("an open window of an alternative holds no more than its burst and its rate", "[limiter][alternatives]") {
  limits_run run;
  limiter_options o = keys({10, 3}, 2);
  o.alternatives[1].rates[0].window = rate_window::strict;
  limiter l{run.io, o};
  std::vector<std::vector<time_point>> at(2);
  bool stop = false;
  for (int i = 0; i < 6; ++i) {
    run.go([&]() -> net::awaitable<void> {
      while (!stop) {
        const permit p = co_await l.acquire();
        at[p.alternative()].push_back(run.time.now());
      }
    });
  }
  run.time.run_for(30s);
  stop = true;
  run.time.run();
  CHECK(at[0].size() >= 300);
  CHECK(at[1].size() >= 85);
  for (std::size_t i = 0; i + 3 < at[1].size(); ++i)
    CHECK(at[1][i + 3] - at[1][i] >= 1s);  // no window of a second has 4
}

TEST_CASE("threads that are granted at once have the alternative that they asked for", "[limiter][alternatives]") {
  net::io_context io;
  limiter_options o;
  o.alternatives = {{.name = "a"}, {.name = "b"}};
  limiter l{io, o};
  std::vector<std::thread> threads;
  std::array<int, 4> wrong{};
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        const auto p = l.try_acquire({.tokens = 1 + t, .alternatives = t % 2 == 0 ? only_a : only_b});
        wrong[t] += !p || p->alternative() != t % 2 ? 1 : 0;
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(wrong == std::array<int, 4>{});
  CHECK(l.stats().held == 0);
  CHECK(l.stats().alternatives[0].held + l.stats().alternatives[1].held == 0);
  CHECK(l.stats().alternatives[0].granted == 10'000);
}
