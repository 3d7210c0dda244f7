// Wake-ups that wait for others.
#include "canigo/limiter.hpp"
#include "canigo/scheduler.hpp"

#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <algorithm>
#include <limits>
#include <set>

using namespace canigo;
using namespace std::chrono_literals;

namespace slack {

/// When the callers were let through, which ask again and again for so long.
std::vector<duration> grants(limits_run& run, scheduler& s, int callers, duration span) {
  std::vector<duration> granted;
  for (int i = 0; i < callers; ++i) {
    run.go([&]() -> net::awaitable<void> {
      for (;;) {
        std::error_code ec;
        (void)co_await s.acquire({}, ec);
        if (ec) co_return;
        granted.push_back(run.time.elapsed());
      }
    });
  }
  run.time.run_for(span);
  s.stop();
  run.time.run();
  return granted;
}

/// No closed window holds more than the burst and what came in it.
bool keeps_windows(const std::vector<duration>& granted, std::int64_t per_second, std::int64_t burst) {
  // In tokens times a second's nanoseconds, so that nothing is rounded.
  const std::int64_t within_a_nanosecond = 1'000'000'000 % per_second == 0 ? 0 : per_second;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 0; i < granted.size(); ++i) {
    const std::int64_t x = static_cast<std::int64_t>(i) * 1'000'000'000 - granted[i].count() * per_second;
    least = std::min(least, x);
    if (x - least > (burst - 1) * 1'000'000'000 + within_a_nanosecond) return false;
  }
  return true;
}

}  // namespace slack

TEST_CASE("with slack the windows keep their bound, and the rate is held", "[slack]") {
  struct row {
    std::int64_t per_second;
    std::uint64_t burst;
    duration slack;
    std::size_t most_wakes;  // in two seconds
  };
  const row rows[] = {
      {10'000, 20, 1ms, 2001},  {10'000, 10, 1ms, 2001}, {10'000, 3, 1ms, 9000}, {100'000, 200, 1ms, 2001},
      {10'000, 1, 1ms, 20'001}, {7, 3, 1s, 6},           {997, 50, 20ms, 101},
  };
  for (const row& r : rows) {
    CAPTURE(r.per_second, r.burst, r.slack.count());
    limits_run run;
    scheduler s{run.io, {.rate = {r.per_second, 1s}, .burst = r.burst, .slack = r.slack}};
    const auto granted = slack::grants(run, s, 64, 2s);
    const auto wanted = static_cast<double>(r.per_second) * 2;
    CHECK(static_cast<double>(granted.size()) >= std::min(wanted * 0.999, wanted - 1));
    CHECK(slack::keeps_windows(granted, r.per_second, static_cast<std::int64_t>(r.burst)));
    CHECK(std::set<duration>(granted.begin(), granted.end()).size() <= r.most_wakes);
  }
}

TEST_CASE("wake-ups of several limits meet at multiples of the slack", "[slack]") {
  limits_run run;
  std::set<duration> instants;
  const auto loop = [&](auto& s) {
    return [&]() -> net::awaitable<void> {
      for (;;) {
        std::error_code ec;
        (void)co_await s.acquire({}, ec);
        if (ec) co_return;
        instants.insert(run.time.elapsed());
      }
    };
  };
  scheduler a{run.io, {.rate = rate::per_second(730), .burst = 10, .slack = 10ms}};
  limiter b{run.io, {.rates = {{rate::per_second(190), 10}}, .slack = 10ms}};
  for (int i = 0; i < 8; ++i) run.go(loop(a));
  for (int i = 0; i < 8; ++i) run.go(loop(b));
  run.time.run_for(1s);
  a.stop();
  b.stop();
  run.time.run();
  for (const duration d : instants) CHECK(d % 10ms == 0s);
  CHECK(instants.size() <= 101);
}

TEST_CASE("slack makes nobody miss its deadline, and delays nobody that need not wait", "[slack]") {
  limits_run run;
  scheduler s{run.io, {.rate = rate::per_second(100), .burst = 50, .slack = 100ms}};
  const auto go = [&](std::string name, request r) {
    run.go([&run, &s, name, r]() -> net::awaitable<void> {
      std::error_code ec;
      co_await s.acquire(r, ec);
      run.note(ec ? name + "=" + ec.message() : name);
    });
  };
  go("a", {.deadline = run.time.now() + 25ms});
  go("b", {});
  run.time.run_for(200ms);
  go("c", {.tokens = 10});
  run.time.run();
  CHECK(run.log == log_lines{"b@25", "a@25", "c@200"});
}

TEST_CASE("a slack out of range is refused", "[slack]") {
  limits_run run;
  CHECK(refusal_of([&] {
          scheduler{run.io, {.rate = rate::per_second(1), .slack = -1ms}};
        }).find("scheduler_options.slack is -1ms; allowed: 0s to 1s") == 0);
  CHECK(refusal_of([&] {
          limiter{run.io, {.concurrency = 1, .slack = 2s}};
        }).find("limiter_options.slack is 2s; allowed: 0s to 1s") == 0);
}
