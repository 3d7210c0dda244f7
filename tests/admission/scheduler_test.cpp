#include "canigo/scheduler.hpp"

#include "canigo/algorithms/token_bucket.hpp"

#include "support/catch.hpp"
#include "support/timeline.hpp"

#include <asio/post.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

using namespace std::chrono_literals;
using namespace canigo;

namespace {

// The scenarios' notation: n tokens per s seconds, q priorities, burst max(b, 1), empty at the start.
scheduler_options of(std::int64_t n, std::int64_t s, int q, std::uint64_t b) {
  return {.rate = rate{n, std::chrono::seconds{s}}, .burst = std::max<std::uint64_t>(b, 1), .priorities = q};
}

// Batch after batch, one acquire of each class in it: "0b0", "1b0", …
void acquire_batches(timeline& t, scheduler& s, int batches, int priorities) {
  for (int batch = 0; batch < batches; ++batch) {
    for (int priority = 0; priority < priorities; ++priority) {
      t.acquire(s, std::to_string(priority) + "b" + std::to_string(batch), {.priority = priority});
    }
  }
  t.time.poll();
}

events numbered(int first, int last) {
  events names;
  for (int i = first; i <= last; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string text_of(const std::function<void()>& call, errc code = errc::invalid_argument) {
  try {
    call();
  } catch (const std::system_error& e) {
    CHECK(e.code() == code);
    std::string text = e.what();
    return text.substr(0, text.find(": " + e.code().message()));
  }
  return "nothing was thrown";
}

}  // namespace

// ---- rate ----

TEST_CASE("tokens come at the rate, from an empty start, in the order of arrival", "[scheduler]") {  // S1
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  t.acquire_all(s, numbered(1, 5));
  CHECK(t.run() == events{"1 200ms", "2 400ms", "3 600ms", "4 800ms", "5 1s"});
}

TEST_CASE("what gathers while nobody asks is the burst and no more", "[scheduler]") {
  struct {
    const char* name;
    std::uint64_t burst;
    duration idle;
    events expected;
  } const rows[] = {
      {"S2", 5, 1s, {"1 1s", "2 1s", "3 1s", "4 1s", "5 1s", "6 1200ms", "7 1400ms", "8 1600ms", "9 1800ms", "10 2s"}},
      {"S5", 1, 2150ms, {"1 2150ms", "2 2350ms", "3 2550ms", "4 2750ms", "5 2950ms", "6 3150ms"}},
      {"S6",
       5,
       3s,
       {"1 3s", "2 3s", "3 3s", "4 3s", "5 3s", "6 3200ms", "7 3400ms", "8 3600ms", "9 3800ms", "10 4s", "11 4200ms"}},
      {"a part of a token is kept too", 5, 300ms, {"1 300ms", "2 400ms", "3 600ms"}},
      {"full to the nanosecond", 2, 400ms, {"1 400ms", "2 400ms", "3 600ms"}},
      {"a nanosecond before it is full", 2, 399'999'999ns, {"1 399999999ns", "2 400ms", "3 600ms"}},
  };
  for (const auto& row : rows) {
    INFO(row.name);
    timeline t;
    scheduler s{t.io, of(5, 1, 1, row.burst)};
    t.time.run_for(row.idle);
    t.acquire_all(s, numbered(1, static_cast<int>(row.expected.size())));
    CHECK(t.run() == row.expected);
  }
}

TEST_CASE("a scheduler that starts with tokens gives them out at once", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3, .initial_tokens = 2}};
  CHECK(s.stats().tokens == 2);
  t.acquire_all(s, numbered(1, 4));
  CHECK(t.run() == events{"1 0s", "2 0s", "3 200ms", "4 400ms"});
}

TEST_CASE("the schedule does not drift at a rate that is no whole number of nanoseconds", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate{7, 3s}}};
  constexpr int many = 7000;
  t.acquire_all(s, numbered(1, many));
  const events log = t.run();
  REQUIRE(log.size() == many);
  for (int i = 1; i <= many; ++i) {
    const duration due{(std::int64_t{3'000'000'000} * i + 6) / 7};  // rounded up
    REQUIRE(log[static_cast<std::size_t>(i - 1)] == std::to_string(i) + " " + to_string(due));
  }
}

TEST_CASE("an hour at a hundred thousand per second, exactly", "[scheduler]") {  // S14
  struct {
    std::int64_t per_second;
    duration span;
  } const rows[] = {{1'000, 10s}, {20'000, 500ms}, {100'000, 100ms}, {1'000'000, 10ms}};
  for (const auto& row : rows) {
    timeline t;
    scheduler s{t.io, {.rate = rate::per_second(row.per_second)}};
    std::int64_t granted = 0;
    const auto looping = [](scheduler& of, std::int64_t& count) -> net::awaitable<void> {
      for (;;) {
        co_await of.acquire();
        ++count;
      }
    };
    for (int i = 0; i < 3; ++i) net::co_spawn(t.io, looping(s, granted), net::detached);
    t.time.run_for(row.span);
    CHECK(granted == row.per_second * row.span.count() / 1'000'000'000);
    t.time.run_for(row.span);
    CHECK(granted == 2 * row.per_second * row.span.count() / 1'000'000'000);
  }
}

TEST_CASE("a year passes in a moment", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_day(1)}};
  t.acquire_all(s, numbered(1, 365));
  CHECK(t.run().back() == "365 " + to_string(365 * 24h));
}

// ---- order ----

TEST_CASE("the important ones first, in the order of arrival inside a class", "[scheduler]") {
  SECTION("S3: three batches of three classes, empty at the start") {
    timeline t;
    scheduler s{t.io, of(5, 1, 3, 0)};
    acquire_batches(t, s, 3, 3);
    CHECK(t.run() == events{"0b0 200ms", "0b1 400ms", "0b2 600ms", "1b0 800ms", "1b1 1s", "1b2 1200ms", "2b0 1400ms",
                            "2b1 1600ms", "2b2 1800ms"});
  }
  SECTION("S4: with a burst of five, after 1.5 s") {
    timeline t;
    scheduler s{t.io, of(10, 3, 3, 5)};
    t.time.run_for(1500ms);
    acquire_batches(t, s, 4, 3);
    CHECK(t.run() == events{"0b0 1500ms", "1b0 1500ms", "2b0 1500ms", "0b1 1500ms", "1b1 1500ms", "0b2 1800ms",
                            "0b3 2100ms", "1b2 2400ms", "1b3 2700ms", "2b1 3s", "2b2 3300ms", "2b3 3600ms"});
  }
}

TEST_CASE("a token goes to who matters most when it is released, not when it was asked for", "[scheduler]") {  // S9
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 0)};
  t.acquire_all(s, {"low"}, {.priority = 1});
  t.time.run_for(199'999'999ns);
  t.acquire_all(s, {"high"}, {.priority = 0});
  CHECK(t.run() == events{"high 200ms", "low 400ms"});
}

TEST_CASE("a heavy request is not overtaken by a light one of its class", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  t.acquire_all(s, {"heavy"}, {.priority = 1, .tokens = 3});
  t.acquire_all(s, {"light"}, {.priority = 1});
  t.acquire_all(s, {"lighter"}, {.priority = 1});
  CHECK(t.run() == events{"heavy 600ms", "light 800ms", "lighter 1s"});
}

TEST_CASE("a heavy request of the first class holds back a light one of the second", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  t.acquire_all(s, {"light"}, {.priority = 1});
  t.acquire_all(s, {"heavy"}, {.priority = 0, .tokens = 3});
  CHECK(t.run() == events{"heavy 600ms", "light 800ms"});
}

TEST_CASE("a newcomer that matters more goes at once where the heavy first one could not", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  t.acquire_all(s, {"heavy"}, {.priority = 1, .tokens = 3});
  t.time.run_for(250ms);
  t.acquire_all(s, {"light"}, {.priority = 0});
  CHECK(t.run() == events{"light 250ms", "heavy 800ms"});
}

TEST_CASE("the last of 1024 classes is served", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1024, 0)};
  t.acquire_all(s, {"last"}, {.priority = 1023});
  t.acquire_all(s, {"first"}, {.priority = 0});
  t.acquire_all(s, {"middle"}, {.priority = 512});
  CHECK(t.run() == events{"first 200ms", "middle 400ms", "last 600ms"});
}

// ---- ageing ----

namespace {

net::awaitable<void> acquire_for_ever(scheduler& s, int priority, int& count) {
  for (;;) {
    co_await s.acquire(priority);
    ++count;
  }
}

}  // namespace

TEST_CASE("without ageing the least class waits for ever while the first is saturated", "[scheduler]") {  // S15
  timeline t;
  scheduler s{t.io, of(5, 1, 3, 0)};
  int count = 0;
  for (int i = 0; i < 2; ++i) net::co_spawn(t.io, acquire_for_ever(s, 0, count), net::detached);
  t.acquire_all(s, {"low"}, {.priority = 2});
  CHECK(t.run_for(1h) == events{});
  CHECK(count == 5 * 3600);
}

TEST_CASE("with ageing the least class is served within its classes and one period", "[scheduler]") {  // S15
  struct {
    duration ageing;
    const char* expected;
  } const rows[] = {{1s, "low 2s"}, {1050ms, "low 2200ms"}, {1ns, "low 600ms"}, {1h, "low 2h"}};
  for (const auto& row : rows) {
    timeline t;
    auto options = of(5, 1, 3, 0);
    options.ageing = row.ageing;
    scheduler s{t.io, options};
    int count = 0;
    for (int i = 0; i < 2; ++i) net::co_spawn(t.io, acquire_for_ever(s, 0, count), net::detached);
    t.time.poll();
    t.acquire_all(s, {"low"}, {.priority = 2});
    CHECK(t.run_for(3h) == events{row.expected});
  }
}

TEST_CASE("a lighter waiter that rises above a heavy one goes at that very instant", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1), .burst = 5, .priorities = 2, .ageing = 1500ms}};
  t.acquire_all(s, {"light"}, {.priority = 1});
  t.time.run_for(100ms);
  t.acquire_all(s, {"heavy"}, {.priority = 0, .tokens = 5});
  CHECK(t.run() == events{"light 1500ms", "heavy 6s"});
}

TEST_CASE("an older waiter that rises to a newer one's class goes before it", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1), .priorities = 2, .ageing = 900ms}};
  t.acquire_all(s, {"old"}, {.priority = 1});
  t.acquire_all(s, {"new"}, {.priority = 0});
  CHECK(t.run() == events{"old 1s", "new 2s"});
}

TEST_CASE("a waiter that has not yet risen does not go before the newer, more important one", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(1), .priorities = 2, .ageing = 1000000001ns}};
  t.acquire_all(s, {"old"}, {.priority = 1});
  t.acquire_all(s, {"new"}, {.priority = 0});
  CHECK(t.run() == events{"new 1s", "old 2s"});
}

// ---- deadlines ----

TEST_CASE("a deadline before the earliest possible grant is refused at once", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  SECTION("the token is a nanosecond too late") {
    t.acquire_all(s, {"a"}, {.deadline = t.at(200ms) - 1ns});
    CHECK(t.take_log() == events{"a unreachable 0s"});
  }
  SECTION("because of those ahead") {
    t.acquire_all(s, {"first"});
    t.acquire_all(s, {"a"}, {.deadline = t.at(400ms) - 1ns});
    CHECK(t.take_log() == events{"a unreachable 0s"});
    CHECK(t.run() == events{"first 200ms"});
  }
  SECTION("not because of those of a lesser class") {
    t.acquire_all(s, {"low"}, {.priority = 1});
    t.acquire_all(s, {"a"}, {.deadline = t.at(200ms)});
    CHECK(t.run() == events{"a 200ms", "low 400ms"});
  }
  SECTION("because of its own weight") {
    t.acquire_all(s, {"a"}, {.tokens = 3, .deadline = t.at(600ms) - 1ns});
    CHECK(t.take_log() == events{"a unreachable 0s"});
  }
  SECTION("because of a pause") {
    s.pause_until(t.at(1s));
    t.acquire_all(s, {"a"}, {.deadline = t.at(1s) - 1ns});
    t.acquire_all(s, {"b"}, {.deadline = t.at(1s)});
    CHECK(t.run() == events{"a unreachable 0s", "b 1s"});
  }
  SECTION("because of a debt") {
    s.charge(1);
    t.acquire_all(s, {"a"}, {.deadline = t.at(400ms) - 1ns});
    t.acquire_all(s, {"b"}, {.deadline = t.at(400ms)});
    CHECK(t.run() == events{"a unreachable 0s", "b 400ms"});
  }
  SECTION("it has passed already, although the tokens are there") {
    t.time.run_for(1s);
    t.acquire_all(s, {"a"}, {.deadline = t.at(1s) - 1ns});
    t.acquire_all(s, {"b"}, {.deadline = time_point::min()});
    CHECK(t.take_log() == events{"a unreachable 1s", "b unreachable 1s"});
    CHECK(s.stats().tokens == 3);
    t.acquire_all(s, {"c"}, {.deadline = t.at(1s)});
    CHECK(t.take_log() == events{"c 1s"});
  }
  CHECK(t.idle());
}

TEST_CASE("a refused deadline takes nothing, and nobody slips", "[scheduler]") {  // S10
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  t.acquire_all(s, {"hasty"}, {.deadline = t.at(50ms)});
  t.acquire_all(s, {"patient"});
  CHECK(t.run() == events{"hasty unreachable 0s", "patient 200ms"});
  CHECK(s.stats().rejected == 1);
}

TEST_CASE("one whose deadline is the instant of its grant is granted", "[scheduler]") {
  // The token and the deadline are due together: whichever is called first, the grant comes first.
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  SECTION("alone") {
    t.acquire_all(s, {"a"}, {.deadline = t.at(200ms)});
    CHECK(t.run() == events{"a 200ms"});
  }
  SECTION("the deadline was armed after the token") {
    t.acquire_all(s, {"a"});
    t.acquire_all(s, {"b"}, {.deadline = t.at(400ms)});
    t.acquire_all(s, {"c"}, {.deadline = t.at(600ms)});
    CHECK(t.run() == events{"a 200ms", "b 400ms", "c 600ms"});
  }
  SECTION("the deadline was armed before the token") {
    t.acquire_all(s, {"a"}, {.deadline = t.at(400ms)});
    t.time.run_for(100ms);
    s.charge(1);
    CHECK(t.run() == events{"a 400ms"});
  }
  CHECK(t.idle());
}

TEST_CASE("a deadline that passes ends the wait then and there", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 0)};
  t.acquire_all(s, {"low"}, {.priority = 1, .deadline = t.at(300ms)});
  t.acquire_all(s, {"high"}, {.priority = 0});
  t.acquire_all(s, {"other"}, {.priority = 1});
  CHECK(t.run() == events{"high 200ms", "low timed_out 300ms", "other 400ms"});
  CHECK(s.stats().timed_out == 1);
  CHECK(t.idle());
}

TEST_CASE("many deadlines at one instant all end there, in the order of arrival", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  t.acquire_all(s, numbered(1, 4), {.deadline = t.at(1s)});
  s.pause();
  CHECK(t.run() == events{"1 timed_out 1s", "2 timed_out 1s", "3 timed_out 1s", "4 timed_out 1s"});
  s.resume();
  CHECK(s.try_acquire());
}

TEST_CASE("a heavy head that expires lets the lighter one behind it go in the same instant", "[scheduler]") {  // S18
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  t.acquire_all(s, {"heavy"}, {.tokens = 3, .deadline = t.at(600ms)});
  t.acquire_all(s, {"light"}, {.priority = 1});
  t.time.run_for(100ms);
  s.charge(1);  // now the heavy one can't make it
  CHECK(t.run() == events{"heavy timed_out 600ms", "light 600ms"});
}

TEST_CASE("a deadline at the end of time is no deadline", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  t.acquire_all(s, {"a"}, {.deadline = time_point::max()});
  t.acquire_all(s, {"b"}, {.deadline = time_point::max() - 1ns});
  CHECK(t.run() == events{"a 200ms", "b 400ms"});
}

// ---- arguments ----

TEST_CASE("options out of range are refused, by field, value and range", "[scheduler]") {  // S7
  net::io_context io;
  const scheduler_options good{.rate = rate::per_second(5)};
  struct {
    std::function<void(scheduler_options&)> spoil;
    std::string text;
  } const rows[] = {
      {[](auto& o) { o.priorities = 0; }, "scheduler_options.priorities is 0; allowed: 1 to 1024"},
      {[](auto& o) { o.priorities = -7; }, "scheduler_options.priorities is -7; allowed: 1 to 1024"},
      {[](auto& o) { o.priorities = 1025; }, "scheduler_options.priorities is 1025; allowed: 1 to 1024"},
      {[](auto& o) { o.queue_limit = 0; }, "scheduler_options.queue_limit is 0; allowed: 1 or more"},
      {[](auto& o) { o.ageing = 0s; }, "scheduler_options.ageing is 0s; allowed: more than 0"},
      {[](auto& o) { o.ageing = -3ms; }, "scheduler_options.ageing is -3ms; allowed: more than 0"},
      {[](auto& o) { o.ageing = duration::min(); },
       "scheduler_options.ageing is -9223372036854775808ns; allowed: more than 0"},
      {[](auto& o) { o.burst = 0; }, "scheduler_options.burst is 0; allowed: 1 to 2^62"},
      {[](auto& o) { o.burst = static_cast<std::uint64_t>(-1); },
       "scheduler_options.burst is 18446744073709551615; allowed: 1 to 2^62"},
      {[](auto& o) { o.initial_tokens = 2; }, "scheduler_options.initial_tokens is 2; allowed: 0 to the burst of 1"},
      {[](auto& o) { o.on_overflow = overflow::wait; },
       "scheduler_options.on_overflow is wait; allowed: reject_new, evict_oldest, evict_least_important"},
  };
  for (const auto& row : rows) {
    auto options = good;
    row.spoil(options);
    CHECK(text_of([&] { scheduler{io, options}; }) == row.text);
  }
}

TEST_CASE("a rate that is none is refused before there is a scheduler", "[scheduler]") {  // S7
  for (const auto& call : std::vector<std::function<void()>>{
           [] { rate{0, 1s}; }, [] { rate{-1, 1s}; }, [] { rate{1, 0s}; }, [] { rate{1, -1s}; }, [] { rate{2, 1ns}; },
           [] { rate::parse("nan/s"); }, [] { rate::parse("1e400/s"); }}) {
    CHECK(text_of(call).find("allowed") + text_of(call).find("expected") != 2 * std::string::npos);
    CHECK(text_of(call) != "nothing was thrown");
  }
}

TEST_CASE("the ends of what options allow work", "[scheduler]") {
  timeline t;
  SECTION("a billion per second, the deepest bucket, full") {
    scheduler s{t.io,
                {.rate = rate{1, 1ns},
                 .burst = token_bucket::max_burst,
                 .initial_tokens = token_bucket::max_burst,
                 .queue_limit = 1}};
    t.acquire_all(s, {"all"}, {.tokens = token_bucket::max_burst});
    t.acquire_all(s, {"one"});
    CHECK(t.run() == events{"all 0s", "one 1ns"});
  }
  SECTION("one per 292 years") {
    scheduler s{t.io, {.rate = rate{1, duration::max()}}};
    t.acquire_all(s, {"a"});
    t.time.run_until(time_point::max() - 1ns);
    CHECK(t.take_log().empty());
    CHECK(s.stats().waiting == 1);
  }
}

TEST_CASE("a request out of range fails at once, naming value and range, and takes nothing", "[scheduler]") {  // S8
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3, .initial_tokens = 3, .priorities = 3}};
  struct {
    request r;
    errc code;
    std::string text;
  } const rows[] = {
      {{.priority = -1}, errc::invalid_priority, "request.priority is -1; allowed: 0 to 2"},
      {{.priority = 3}, errc::invalid_priority, "request.priority is 3; allowed: 0 to 2"},
      {{.priority = 1 << 16}, errc::invalid_priority, "request.priority is 65536; allowed: 0 to 2"},
      {{.priority = std::numeric_limits<int>::min()},
       errc::invalid_priority,
       "request.priority is -2147483648; allowed: 0 to 2"},
      {{.tokens = 0}, errc::invalid_argument, "request.tokens is 0; allowed: 1 or more"},
      {{.tokens = 4}, errc::too_large, "request.tokens is 4; allowed: 1 to 3"},
      {{.tokens = ~std::uint64_t{0}}, errc::too_large, "request.tokens is 18446744073709551615; allowed: 1 to 3"},
      {{.tokens = 4, .deadline = time_point::min()}, errc::too_large, "request.tokens is 4; allowed: 1 to 3"},
  };
  std::uint64_t rejected = 0;
  for (const auto& row : rows) {
    INFO(row.text);
    CHECK(text_of([&] { (void)s.try_acquire(row.r); }, row.code) == row.text);

    std::string text;
    net::co_spawn(
        t.io,
        [](scheduler& of, request r, errc code, std::string& out) -> net::awaitable<void> {
          try {
            co_await of.acquire(r);
          } catch (const std::system_error& e) {
            CHECK(e.code() == code);
            out = e.what();
          }
        }(s, row.r, row.code, text),
        net::detached);
    t.time.poll();
    CHECK(text.substr(0, row.text.size()) == row.text);

    std::error_code how;
    s.async_acquire(row.r, [&](std::error_code ec) { how = ec; });
    t.time.poll();
    CHECK(how == row.code);
    rejected += 3;
  }
  const auto after = s.stats();
  CHECK(after.tokens == 3);
  CHECK(after.rejected == rejected);
  CHECK(after.waiting == 0);
  CHECK_THROWS_AS(s.estimate({.priority = 3}), std::system_error);
  CHECK_THROWS_AS(s.estimate({.tokens = 4}), std::system_error);
}

TEST_CASE("setters refuse what the constructor refuses, and change nothing then", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = 3, .initial_tokens = 1}};
  CHECK(text_of([&] { s.set_burst(0); }) == "scheduler.set_burst: burst is 0; allowed: 1 to 2^62");
  CHECK(s.stats().tokens == 1);
  t.acquire_all(s, {"a"}, {.tokens = 3});
  CHECK_THROWS_AS(s.set_burst(~std::uint64_t{0}), std::system_error);
  CHECK(t.run() == events{"a 400ms"});
}

// ---- overflow ----

TEST_CASE("a full queue", "[scheduler]") {
  timeline t;
  auto options = of(5, 1, 3, 0);
  options.queue_limit = 3;
  SECTION("turns newcomers away, however important") {
    scheduler s{t.io, options};
    t.acquire_all(s, {"a", "b", "c"}, {.priority = 2});
    t.acquire_all(s, {"d"}, {.priority = 0});
    CHECK(t.take_log() == events{"d queue_full 0s"});
    CHECK(s.stats().rejected == 1);
    t.time.run_for(200ms);
    t.acquire_all(s, {"e"}, {.priority = 2});
    CHECK(t.run() == events{"a 200ms", "b 400ms", "c 600ms", "e 800ms"});
  }
  SECTION("drops whoever waits longest") {
    options.on_overflow = overflow::evict_oldest;
    scheduler s{t.io, options};
    t.acquire_all(s, {"a"}, {.priority = 1});
    t.acquire_all(s, {"b"}, {.priority = 0});
    t.acquire_all(s, {"c"}, {.priority = 2});
    t.acquire_all(s, {"d"}, {.priority = 2});
    t.acquire_all(s, {"e"}, {.priority = 2});
    CHECK(t.take_log() == events{"a evicted 0s", "b evicted 0s"});
    CHECK(s.stats().evicted == 2);
    CHECK(t.run() == events{"c 200ms", "d 400ms", "e 600ms"});
  }
  SECTION("drops the youngest of the least important class for one that matters more") {
    options.on_overflow = overflow::evict_least_important;
    scheduler s{t.io, options};
    t.acquire_all(s, {"a"}, {.priority = 1});
    t.acquire_all(s, {"b", "c"}, {.priority = 2});
    t.acquire_all(s, {"d"}, {.priority = 2});
    CHECK(t.take_log() == events{"d queue_full 0s"});
    t.acquire_all(s, {"e"}, {.priority = 1});
    CHECK(t.take_log() == events{"c evicted 0s"});
    t.acquire_all(s, {"f"}, {.priority = 0});
    CHECK(t.take_log() == events{"b evicted 0s"});
    t.acquire_all(s, {"g"}, {.priority = 1});
    CHECK(t.take_log() == events{"g queue_full 0s"});
    CHECK(t.run() == events{"f 200ms", "a 400ms", "e 600ms"});
    CHECK(s.stats().evicted == 2);
    CHECK(s.stats().rejected == 2);
  }
  SECTION("does not evict for one that can't be served in time anyway") {
    options.on_overflow = overflow::evict_least_important;
    scheduler s{t.io, options};
    t.acquire_all(s, {"a", "b", "c"}, {.priority = 2});
    t.acquire_all(s, {"d"}, {.priority = 0, .deadline = t.at(199ms)});
    CHECK(t.run() == events{"d unreachable 0s", "a 200ms", "b 400ms", "c 600ms"});
  }
}

TEST_CASE("evicting the heavy head lets the newcomer go at once", "[scheduler]") {
  timeline t;
  auto options = of(5, 1, 2, 3);
  options.queue_limit = 1;
  options.on_overflow = overflow::evict_oldest;
  scheduler s{t.io, options};
  t.acquire_all(s, {"heavy"}, {.tokens = 3});
  t.time.run_for(200ms);
  t.acquire_all(s, {"light"}, {.priority = 1});
  CHECK(t.take_log() == events{"heavy evicted 200ms", "light 200ms"});
  CHECK(t.idle());
}

TEST_CASE("an evicted waiter with a deadline is not timed out as well", "[scheduler]") {
  timeline t;
  auto options = of(5, 1, 1, 0);
  options.queue_limit = 1;
  options.on_overflow = overflow::evict_oldest;
  scheduler s{t.io, options};
  t.acquire_all(s, {"a"}, {.deadline = t.at(1s)});
  t.acquire_all(s, {"b"}, {.deadline = t.at(1s)});
  CHECK(t.run() == events{"a evicted 0s", "b 200ms"});
  CHECK(t.idle());
}

// ---- what can be had without waiting ----

TEST_CASE("try_acquire takes what is there and overtakes nobody", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  CHECK_FALSE(s.try_acquire());
  t.time.run_for(600ms);
  CHECK(s.try_acquire(1));
  CHECK(s.try_acquire({.tokens = 2}));
  CHECK_FALSE(s.try_acquire());
  t.acquire_all(s, {"low"}, {.priority = 1, .tokens = 2});
  t.time.run_for(200ms);
  CHECK_FALSE(s.try_acquire(0));  // a token is there, but it is waited for
  CHECK(t.run() == events{"low 1s"});
  CHECK_FALSE(s.try_acquire({.deadline = time_point::min()}));
  s.pause();
  t.time.run_for(200ms);
  CHECK_FALSE(s.try_acquire());
  s.resume();
  CHECK(s.try_acquire());
  s.stop();
  t.time.run_for(200ms);
  CHECK_FALSE(s.try_acquire());
}

TEST_CASE("after 128 grants in a row an acquire passes through the event loop", "[scheduler]") {
  timeline t;
  constexpr int many = 1000;
  scheduler s{t.io, {.rate = rate::per_second(5), .burst = many, .initial_tokens = many}};
  std::vector<int> seen_at;
  int count = 0;
  bool done = false;
  net::co_spawn(
      t.io,
      [](scheduler& of, int& n, bool& end) -> net::awaitable<void> {
        for (int i = 0; i < many; ++i) {
          co_await of.acquire();
          ++n;
        }
        end = true;
      }(s, count, done),
      net::detached);
  std::function<void()> look = [&] {
    seen_at.push_back(count);
    if (!done) net::post(t.io, look);
  };
  net::post(t.io, look);
  t.time.poll();
  CHECK(count == many);
  REQUIRE(seen_at.size() > 7);
  for (std::size_t i = 1; i < seen_at.size(); ++i) CHECK(seen_at[i] - seen_at[i - 1] <= 129);
  CHECK(seen_at[0] == 128);
}

// ---- live changes ----

TEST_CASE("tokens given back are had at once, up to the burst", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 3)};
  SECTION("S19: into a full bucket they are lost") {
    t.time.run_for(1s);
    s.refund(2);
    CHECK(s.stats().tokens == 3);
    t.acquire_all(s, numbered(1, 4));
    CHECK(t.run() == events{"1 1s", "2 1s", "3 1s", "4 1200ms"});
  }
  SECTION("whoever waits gets them in the same instant") {
    t.acquire_all(s, numbered(1, 4));
    t.time.run_for(100ms);
    s.refund(2);
    CHECK(t.poll() == events{"1 100ms", "2 100ms"});
    CHECK(t.run() == events{"3 200ms", "4 400ms"});
  }
  SECTION("an excess does not outlive its instant") {
    s.refund(~std::uint64_t{0});
    CHECK(s.stats().tokens == 3);
  }
}

TEST_CASE("tokens charged below empty delay the next grant by exactly their time", "[scheduler]") {  // S19
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 3)};
  t.acquire_all(s, {"a"});
  t.time.run_for(100ms);
  s.charge(3);
  CHECK(s.stats().tokens == -3);
  CHECK(t.run() == events{"a 800ms"});
  s.charge(1);
  t.acquire_all(s, {"b"});
  CHECK(t.run() == events{"b 1200ms"});
  s.charge(2);
  s.refund(2);
  t.acquire_all(s, {"c"});
  CHECK(t.run() == events{"c 1400ms"});
}

TEST_CASE("a new rate re-times all who wait, at once", "[scheduler]") {
  timeline t;
  SECTION("S17: from one per hour to a hundred per second") {
    scheduler s{t.io, {.rate = rate::per_hour(1)}};
    t.acquire_all(s, numbered(1, 10));
    s.set_rate(rate::per_second(100));
    CHECK(t.run() ==
          events{"1 10ms", "2 20ms", "3 30ms", "4 40ms", "5 50ms", "6 60ms", "7 70ms", "8 80ms", "9 90ms", "10 100ms"});
  }
  SECTION("the part of a token that had come stays") {
    scheduler s{t.io, of(1, 1, 1, 0)};
    t.acquire_all(s, {"a", "b"});
    t.time.run_for(500ms);
    s.set_rate(rate::per_second(10));
    CHECK(t.run() == events{"a 550ms", "b 650ms"});
  }
  SECTION("slower") {
    scheduler s{t.io, of(10, 1, 1, 0)};
    t.acquire_all(s, {"a", "b"});
    t.time.run_for(50ms);
    s.set_rate(rate::per_second(1));
    CHECK(t.run() == events{"a 550ms", "b 1550ms"});
  }
  SECTION("to one whose next token is beyond the end of time, and back") {
    scheduler s{t.io, of(1, 1, 1, 0)};
    t.acquire_all(s, {"a"});
    s.set_rate(rate{1, duration::max()});
    t.time.run_for(24h);
    CHECK(t.take_log().empty());
    s.set_rate(rate::per_second(1));
    // In that day one token in 292 years has come to 9.4 millionths of one.
    CHECK(t.run_for(1s) == events{"a " + to_string(24h + 1s - 9367ns)});
  }
}

TEST_CASE("a new burst holds at once", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 3)};
  SECTION("what is there stays as far as it fits") {
    t.time.run_for(1s);
    s.set_burst(2);
    CHECK(s.stats().tokens == 2);
    s.set_burst(10);
    CHECK(s.stats().tokens == 2);
    t.time.run_for(10s);
    CHECK(s.stats().tokens == 10);
  }
  SECTION("a request that no longer fits ends as too large, and the next one goes") {
    t.acquire_all(s, {"heavy"}, {.tokens = 3});
    t.acquire_all(s, {"light"}, {.priority = 1});
    t.time.run_for(200ms);
    s.set_burst(2);
    CHECK(t.poll() == events{"heavy too_large 200ms", "light 200ms"});
    CHECK(s.stats().rejected == 1);
    CHECK(t.idle());
  }
  SECTION("a bigger one lets heavier requests in") {
    CHECK_THROWS_AS(s.try_acquire({.tokens = 4}), std::system_error);
    s.set_burst(4);
    t.acquire_all(s, {"heavy"}, {.tokens = 4});
    CHECK(t.run() == events{"heavy 800ms"});
  }
}

TEST_CASE("a pause lets nobody through, and tokens gather meanwhile", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 3)};
  t.acquire_all(s, numbered(1, 5));
  SECTION("until an instant") {
    s.pause_until(t.at(1s));
    CHECK(t.run() == events{"1 1s", "2 1s", "3 1s", "4 1200ms", "5 1400ms"});
  }
  SECTION("until resume()") {
    s.pause();
    CHECK(t.run_for(300ms).empty());
    CHECK(t.idle());  // nothing can happen by itself
    s.resume();
    CHECK(t.run() == events{"1 300ms", "2 400ms", "3 600ms", "4 800ms", "5 1s"});
  }
  SECTION("a later call replaces an earlier one") {
    s.pause_until(t.at(10s));
    s.pause_until(t.at(400ms));
    CHECK(t.run_for(400ms) == events{"1 400ms", "2 400ms"});
    s.pause_until(t.at(1h));
    t.time.run_for(100ms);
    s.resume();
    CHECK(t.run() == events{"3 600ms", "4 800ms", "5 1s"});
  }
  SECTION("that has passed is none") {
    s.pause_until(t.at(-1s));
    CHECK(t.run_for(200ms) == events{"1 200ms"});
    s.pause_until(time_point::min());
    CHECK(t.run_for(200ms) == events{"2 400ms"});
  }
  SECTION("is still to be cancelled by deadlines and by stop()") {
    s.pause();
    t.acquire_all(s, {"dated"}, {.deadline = t.at(5s)});
    CHECK(t.run_for(5s) == events{"dated timed_out 5s"});
    s.stop();
    CHECK(t.poll().size() == 5);
  }
}

TEST_CASE("a pause that ends while nobody waits costs nothing", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 3)};
  s.pause_until(t.at(1s));
  CHECK(t.idle());
  CHECK_FALSE(s.try_acquire());
  t.time.run_for(1s - 1ns);
  CHECK_FALSE(s.try_acquire());
  t.time.run_for(1ns);
  CHECK(s.try_acquire());
}

// ---- estimate ----

TEST_CASE("the estimate is the wait of one that came now, if nobody more important comes", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 3, 3)};
  CHECK(s.estimate({}) == 200ms);
  CHECK(s.estimate({.tokens = 3}) == 600ms);
  t.time.run_for(100ms);
  CHECK(s.estimate({}) == 100ms);
  t.acquire_all(s, {"a"}, {.priority = 1, .tokens = 3});
  t.acquire_all(s, {"b"}, {.priority = 2});
  CHECK(s.estimate({.priority = 0}) == 100ms);
  CHECK(s.estimate({.priority = 1}) == 700ms);
  CHECK(s.estimate({.priority = 2}) == 900ms);
  s.charge(1);
  CHECK(s.estimate({.priority = 0}) == 300ms);
  s.refund(1);
  s.pause_until(t.at(5s));
  CHECK(s.estimate({.priority = 0}) == 4900ms);
  s.pause();  // it may end at any moment
  CHECK(s.estimate({.priority = 0}) == 100ms);
  s.resume();
  t.acquire_all(s, {"c"}, {.priority = 2, .deadline = t.at(100ms) + s.estimate({.priority = 2})});
  t.time.run_for(10s);
  CHECK(t.take_log() == events{"a 600ms", "b 800ms", "c 1s"});
  CHECK(s.estimate({.tokens = 3}) == 0s);
}

TEST_CASE("estimates saturate at the end of time", "[scheduler]") {
  timeline t;
  scheduler s{t.io, {.rate = rate{1, duration::max()}}};
  t.acquire_all(s, {"a", "b"});
  CHECK(s.estimate({}) == duration::max());
  t.acquire_all(s, {"c"}, {.deadline = time_point::max() - 1ns});
  CHECK(t.take_log() == events{"c unreachable 0s"});
}

TEST_CASE("a clock that begins at the beginning of time", "[scheduler]") {
  net::io_context io;
  testing::virtual_time time{io, time_point::min()};
  scheduler s{io, {.rate = rate{1, duration::max()}, .burst = 2}};
  CHECK(s.estimate({}) == duration::max());
  CHECK(s.estimate({.tokens = 2}) == duration::max());
  s.set_rate(rate::per_second(1));
  bool granted = false;
  s.async_acquire({}, [&](std::error_code ec) { granted = !ec; });
  time.run();
  CHECK(granted);
  CHECK(time.elapsed() == 1s);
}

// ---- stop ----

TEST_CASE("stop ends all who wait and all who come later, once", "[scheduler]") {  // S12
  timeline t;
  scheduler s{t.io, of(5, 1, 3, 0)};
  for (int i = 0; i < 1000; ++i) {
    t.acquire(s, "w", {.priority = i % 3, .deadline = i % 2 == 0 ? time_point::max() : t.at(1h)});
  }
  t.time.poll();
  REQUIRE(s.stats().waiting == 1000);
  s.stop();
  s.stop();
  CHECK(t.log.empty());  // by a post, not inside stop()
  CHECK(t.poll() == events(1000, "w stopped 0s"));
  s.stop();
  CHECK(t.poll().empty());
  CHECK(t.idle());
  t.acquire_all(s, {"later"});
  t.time.run_for(1h);
  CHECK(t.take_log() == events{"later stopped 0s"});
  CHECK_FALSE(s.try_acquire());
  CHECK(s.stats().stopped == 1002);
  CHECK(s.stats().requested == 1002);
  // Nothing of this brings it back to life.
  s.resume();
  s.refund(1);
  s.set_rate(rate::per_second(7));
  s.set_burst(7);
  CHECK_FALSE(s.try_acquire());
}

TEST_CASE("what was granted before stop() arrives as granted", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 1, 0)};
  t.acquire_all(s, {"a", "b"});
  s.refund(1);
  s.stop();
  CHECK(t.poll() == events{"a 0s", "b stopped 0s"});
}

// ---- stats ----

TEST_CASE("the counts agree at every step", "[scheduler]") {  // S16
  timeline t;
  auto options = of(5, 1, 3, 2);
  options.queue_limit = 7;
  options.on_overflow = overflow::evict_least_important;
  scheduler s{t.io, options};
  std::uint64_t asked = 0;
  const auto check = [&] {
    const auto now = s.stats();
    CHECK(now.requested == asked);
    CHECK(now.requested ==
          now.waiting + now.granted + now.cancelled + now.timed_out + now.evicted + now.rejected + now.stopped);
    REQUIRE(now.classes.size() == 3);
    std::size_t waiting = 0;
    std::uint64_t granted = 0;
    for (const auto& c : now.classes) {
      waiting += c.waiting;
      granted += c.granted;
      CHECK(c.wait.count() == c.granted);
    }
    CHECK(waiting == now.waiting);
    CHECK(granted == now.granted);
    return now;
  };
  const auto acquire = [&](request r) {
    t.acquire(s, "w", r);
    t.time.poll();
    ++asked;
    return check();
  };
  check();
  for (int batch = 0; batch < 2; ++batch) {
    for (int priority = 0; priority < 3; ++priority) acquire({.priority = priority});
  }
  auto now = check();
  CHECK(now.classes[0].waiting == 2);
  CHECK(now.classes[1].waiting == 2);
  CHECK(now.classes[2].waiting == 2);
  CHECK(now.tokens == 0);
  acquire({.priority = 2, .deadline = t.at(1400ms)});  // fits exactly behind the others
  CHECK(acquire({.priority = 2}).rejected == 1);
  CHECK(acquire({.priority = 0}).evicted == 1);
  CHECK(acquire({.priority = 9}).rejected == 2);
  CHECK(acquire({.priority = 0, .deadline = t.at(1ms)}).rejected == 3);
  for (int step = 1; step <= 6; ++step) {
    t.time.run_for(200ms);
    CHECK(check().granted == static_cast<std::uint64_t>(step));
  }
  now = check();
  CHECK(now.classes[0].granted == 3);
  CHECK(now.classes[0].wait.max() == 600ms);
  CHECK(now.classes[1].wait.max() == 1s);
  CHECK(now.classes[2].granted == 1);
  t.time.run_for(10s);
  now = check();
  CHECK(now.waiting == 0);
  CHECK(now.tokens == 2);
  CHECK(now.classes[2].wait.max() == 1400ms);
  CHECK(s.try_acquire(0));
  CHECK(s.try_acquire(0));
  asked += 2;
  now = check();
  CHECK(now.classes[0].wait.quantile(0.01) < 1us);  // at once is a wait of nothing
  CHECK_FALSE(s.try_acquire(0));
  ++asked;
  CHECK(check().rejected == 4);
  acquire({.priority = 1});
  s.stop();
  CHECK(check().stopped == 1);
  t.time.poll();
  acquire({.priority = 1});
}

// ---- idle ----

TEST_CASE("while nobody waits nothing is armed", "[scheduler]") {
  timeline t;
  scheduler s{t.io, of(5, 1, 2, 1)};
  CHECK(t.idle());
  t.acquire_all(s, {"a"});
  CHECK_FALSE(t.idle());
  t.time.run();
  CHECK(t.idle());
  s.set_rate(rate::per_hour(1));
  s.charge(5);
  s.pause_until(t.at(10h));
  CHECK(t.idle());
}

TEST_CASE("an io_context with an idle scheduler has nothing to do", "[scheduler]") {
  net::io_context io;
  scheduler s{io, {.rate = rate::per_hour(1), .initial_tokens = 1}};
  CHECK(s.try_acquire());
  CHECK(io.run() == 0);
  io.restart();
  std::error_code how;
  net::co_spawn(io, s.acquire(), net::detached);
  s.async_acquire({}, [&](std::error_code ec) { how = ec; });
  s.async_acquire({.deadline = std::chrono::steady_clock::now() + 24h}, [&](std::error_code ec) { how = ec; });
  io.poll();
  CHECK_FALSE(io.stopped());
  s.stop();
  io.run();  // returns, although the next token is an hour away
  CHECK(how == errc::stopped);
}

TEST_CASE("two schedulers on one context do not disturb each other", "[scheduler]") {
  timeline t;
  scheduler a{t.io, of(5, 1, 1, 0)};
  scheduler b{t.io, of(1, 1, 1, 0)};
  t.acquire_all(a, {"a1", "a2", "a3"});
  t.acquire_all(b, {"b1", "b2"});
  a.stop();
  CHECK(t.run() == events{"a1 stopped 0s", "a2 stopped 0s", "a3 stopped 0s", "b1 1s", "b2 2s"});
}
