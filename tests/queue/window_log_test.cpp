#include "canigo/detail/queue/window_log.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <rapidcheck.h>
#include <vector>

namespace window_log_test {

using namespace std::chrono_literals;
using canigo::duration;
using canigo::rate;
using canigo::time_point;
using canigo::token_bucket;
using canigo::detail::window_log;

constexpr time_point start{1h};

/// A rate that is strict: the log with the bucket beside it, as a rate_set has them.
struct strict_rate {
  strict_rate(const rate& r, std::uint64_t burst, std::uint64_t initial) : bucket{r, burst, initial, start}, log{r} {}

  bool can_take(time_point now, std::uint64_t tokens) const {
    return bucket.can_take(now, tokens) && log.has_room(now, tokens);
  }
  bool try_take(time_point now, std::uint64_t tokens) {
    if (!can_take(now, tokens)) return false;
    log.pass(now, tokens, bucket);
    REQUIRE(bucket.try_take(now, tokens));
    log.add(now, tokens);
    return true;
  }
  time_point ready_at(time_point now, std::uint64_t tokens) const {
    return std::max(bucket.ready_at(now, tokens), log.ready_at(now, tokens));
  }
  std::int64_t available(time_point now) const { return std::min(bucket.available(now), log.room(now)); }
  void refund(time_point now, std::uint64_t tokens, time_point granted_at) {
    log.give_back(granted_at, tokens);
    bucket.refund(now, tokens);
  }
  void charge(time_point now, std::uint64_t tokens) {
    log.add(now, tokens);
    bucket.charge(now, tokens);
  }

  token_bucket bucket;
  window_log log;
};

/// What was granted or charged, less what was given back of it.
struct entry {
  time_point at;
  std::uint64_t tokens;
};

std::uint64_t sum_since(const std::vector<entry>& all, time_point since) {
  std::uint64_t sum = 0;
  for (const entry& e : all) sum += e.at >= since ? e.tokens : 0;
  return sum;
}

/// When requests for one token that all wait are granted, until `end`.
std::vector<time_point> grants_until(strict_rate& r, time_point now, time_point end) {
  std::vector<time_point> all;
  for (;;) {
    now = r.ready_at(now, 1);
    if (now >= end) return all;
    REQUIRE(r.try_take(now, 1));
    all.push_back(now);
  }
}

TEST_CASE("a closed window holds the tokens of its rate and not its burst beside", "[window_log]") {
  strict_rate r{rate::per_minute(60), 12, 12};
  const auto grants = grants_until(r, start, start + 1min);
  REQUIRE(grants.size() == 60);
  CHECK(std::ranges::count(grants, start) == 12);
  CHECK(grants.back() == start + 48s);
  CHECK_FALSE(r.try_take(start + 60s, 1));
  CHECK(r.available(start + 60s) == 0);
}

TEST_CASE("both ends of a window belong to it", "[window_log]") {
  strict_rate r{rate{1, 10ns}, 1, 1};
  REQUIRE(r.try_take(start, 1));
  CHECK_FALSE(r.try_take(start + 10ns, 1));
  CHECK(r.ready_at(start, 1) == start + 11ns);
  CHECK(r.try_take(start + 11ns, 1));
}

TEST_CASE("after its burst those that wait go at the rate, and do not stop in each window again", "[window_log]") {
  strict_rate r{rate::per_minute(60), 12, 12};
  const auto grants = grants_until(r, start, start + 10min);
  // From the second window on, which makes up for the burst of the first.
  duration longest{};
  for (std::size_t i = 61; i < grants.size(); ++i) {
    CHECK(grants[i] > grants[i - 1]);
    longest = std::max(longest, grants[i] - grants[i - 1]);
  }
  CHECK(longest <= 2s);
  CHECK(grants.size() >= 590);
}

TEST_CASE("grants of one part leave together, as of the last of them", "[window_log]") {
  window_log log{rate{100, 64s}};
  log.add(start, 60);
  log.add(start + 900ms, 40);
  CHECK(log.ready_at(start + 1s, 1) == start + 64s + 900ms + 1ns);
  CHECK(log.room(start + 64s + 900ms) == 0);
  CHECK(log.room(start + 64s + 900ms + 1ns) == 100);
  // However many there are, the log is no longer than its parts.
  for (int i = 0; i < 10'000; ++i) log.add(start + 100s + i * 50ms, 1);
  CHECK(log.room(start + 600s) <= 100 - 64 * 20);
  CHECK(log.room(start + 600s) > 100 - 68 * 20);
  CHECK(log.ready_at(start + 600s, 100) <= start + 665s);
}

TEST_CASE("an idle bucket fills to its burst again", "[window_log]") {
  strict_rate r{rate::per_minute(60), 12, 12};
  REQUIRE(grants_until(r, start, start + 1min).size() == 60);
  CHECK(r.try_take(start + 1min + 1s, 1));
  CHECK(r.available(start + 1min + 1s) == 0);
  CHECK(r.available(start + 2min) == 12);
  CHECK(r.try_take(start + 2min, 12));
}

TEST_CASE("a bucket keeps what its window had room for, and no more", "[window_log]") {
  strict_rate r{rate::per_minute(60), 30, 30};
  REQUIRE(r.try_take(start, 10));
  REQUIRE(r.try_take(start + 61s, 1));
  CHECK(r.available(start + 61s) == 29);
  SECTION("even if something is charged when there is room again") {
    strict_rate full{rate::per_minute(60), 12, 12};
    REQUIRE(grants_until(full, start, start + 1min).size() == 60);
    full.charge(start + 60s + 2ns, 1);
    REQUIRE(full.try_take(start + 60s + 2ns, 1));
    CHECK_FALSE(full.try_take(start + 60s + 3ns, 1));
  }
}

TEST_CASE("a clock that steps back makes no grant leave sooner", "[window_log]") {
  window_log log{rate{100, 64s}};
  log.add(start + 900ms, 5);
  log.add(start + 800ms, 5);
  CHECK(log.room(start + 64s + 900ms) == 90);
  log.set_rate(start + 100s, rate{100, 64s});
  log.add(start + 100ms, 5);
  CHECK(log.room(start + 64s + 900ms) == 95);
  CHECK(log.room(start + 64s + 901ms) == 100);
}

TEST_CASE("a log of no more room counts further grants in the last part", "[window_log]") {
  window_log log{rate{1000, 64s}};
  for (int i = 0; i < 64; ++i) log.add(start + i * 1s, 1);
  log.set_rate(start + 64s, rate{1000, 64h});
  for (int i = 1; i <= 20; ++i) log.add(start + i * 1h, 1);
  CHECK(log.room(start + 20h) == 1000 - 84);
  CHECK(log.room(start + 64h + 20h) == 1000 - 17);
  CHECK(log.room(start + 64h + 20h + 1ns) == 1000);
  // It remembers as little as before.
  log.set_rate(start + 85h, rate{1000, 640h});
  CHECK(log.room(start + 85h) == 1000);
}

TEST_CASE("counts and times of a window end at their greatest value", "[window_log]") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  window_log log{rate{100, 64s}};
  CHECK(log.ready_at(start, most) == time_point::max());
  log.add(start, most);
  log.add(start + 5s, most);
  CHECK(log.room(start + 5s) == 100 - std::numeric_limits<std::int64_t>::max());
  CHECK(log.ready_at(start + 5s, 1) == start + 64s + 1ns);
  CHECK(log.ready_at(start + 80s, 1) == start + 80s);
}

TEST_CASE("what is given back leaves the window as if it had never been granted", "[window_log]") {
  strict_rate r{rate::per_minute(60), 20, 20};
  REQUIRE(r.try_take(start, 20));
  REQUIRE(r.try_take(start + 20s, 20));
  REQUIRE(r.try_take(start + 40s, 20));
  CHECK(r.available(start + 55s) == 0);
  r.refund(start + 55s, 15, start + 20s);
  CHECK(r.available(start + 55s) == 15);
  REQUIRE(r.try_take(start + 55s, 15));
  // The first twenty leave, then the five that were kept of the second.
  CHECK(r.log.room(start + 60s + 1ns) == 20);
  CHECK(r.log.room(start + 80s + 1ns) == 25);
  CHECK(r.ready_at(start + 55s, 20) > start + 60s);
  CHECK(r.ready_at(start + 55s, 25) > start + 80s);
}

TEST_CASE("what has left the window gives no room back", "[window_log]") {
  strict_rate r{rate::per_minute(60), 60, 60};
  REQUIRE(r.try_take(start, 60));
  REQUIRE(r.try_take(start + 2min, 60));
  r.refund(start + 2min, 60, start);
  CHECK(r.available(start + 2min) == 0);
  r.refund(start + 2min, 60, time_point::min());
  CHECK(r.available(start + 2min) == 0);
  CHECK(r.ready_at(start + 2min, 1) > start + 3min);
}

TEST_CASE("a charge beyond the room is a debt of the window", "[window_log]") {
  strict_rate r{rate::per_minute(60), 60, 60};
  r.charge(start, 30);
  r.charge(start + 30s, 90);
  CHECK(r.available(start + 30s) == -60);
  CHECK(r.ready_at(start + 30s, 1) == start + 90s + 1ns);
  r.charge(start + 91s, std::numeric_limits<std::uint64_t>::max());
  r.charge(start + 92s, std::numeric_limits<std::uint64_t>::max());
  CHECK(r.ready_at(start + 92s, 1) > start + 24h);
}

TEST_CASE("another rate counts what the window still knows", "[window_log]") {
  strict_rate r{rate::per_minute(60), 60, 60};
  REQUIRE(r.try_take(start, 60));
  r.log.set_rate(start, rate::per_minute(90));
  r.bucket.set_rate(start, rate::per_minute(90));
  r.bucket.refund(start, 60);
  CHECK(r.available(start) == 30);
  r.log.set_rate(start, rate{10, 10s});
  CHECK(r.log.most() == 10);
  CHECK(r.available(start) == -50);
  CHECK(r.ready_at(start, 10) == start + 10s + 1ns);
  // A longer period does not remember what the shorter one forgot, and no refund may take it for something else.
  REQUIRE(r.try_take(start + 11s, 10));
  r.log.set_rate(start + 11s, rate::per_minute(60));
  r.refund(start + 12s, 60, start);
  CHECK(r.log.room(start + 12s) == 50);
}

TEST_CASE("requests that together want more than a window get a bound that none of them beats", "[window_log]") {
  strict_rate r{rate::per_minute(60), 12, 12};
  for (const std::uint64_t tokens : {13u, 60u, 61u, 100u, 200u}) {
    strict_rate one_by_one = r;
    time_point last = start;
    for (std::uint64_t i = 0; i < tokens; ++i) {
      last = one_by_one.ready_at(last, 1);
      REQUIRE(one_by_one.try_take(last, 1));
    }
    CHECK(r.ready_at(start, tokens) <= last);
    if (tokens <= 61) CHECK(r.ready_at(start, tokens) == last);
  }
  CHECK(r.ready_at(start, std::numeric_limits<std::uint64_t>::max()) == time_point::max());
}

rate any_strict_rate() {
  const auto period =
      *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 200), rc::gen::inRange<std::int64_t>(1, 10'000'000'000),
                      rc::gen::element<std::int64_t>(1'000'000'000, 60'000'000'000, 86'400'000'000'000));
  return rate{*rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(period, 300) + 1), duration{period}};
}

/// Nothing, a little, or about a window.
duration any_step(const rate& r) {
  const std::int64_t period = r.period().count();
  return duration{*rc::gen::weightedOneOf<std::int64_t>(
      {{3, rc::gen::just<std::int64_t>(0)},
       {6, rc::gen::inRange<std::int64_t>(0, period / 16 + 2)},
       {2, rc::gen::inRange<std::int64_t>(0, period + 2)},
       {1, rc::gen::element<std::int64_t>(period - 1, period, period + 1, 3 * period)}})};
}

TEST_CASE("property: no closed window ever holds more than its rate, whatever is given back", "[window_log]") {
  CHECK(rc::check("strict windows against the sum of what is granted", [] {
    const rate own = any_strict_rate();
    const auto most = static_cast<std::uint64_t>(own.tokens());
    const std::uint64_t burst = *rc::gen::inRange<std::uint64_t>(1, most + 1);
    strict_rate r{own, burst, *rc::gen::inRange<std::uint64_t>(0, burst + 1)};
    std::vector<entry> all;
    std::vector<std::size_t> open;  // grants that may yet be settled
    time_point now = start;
    for (int i = 0; i < 200; ++i) {
      now += any_step(own);
      switch (*rc::gen::weightedElement<int>({{8, 0}, {4, 1}, {1, 2}})) {
        case 0: {
          const std::uint64_t tokens = *rc::gen::inRange<std::uint64_t>(1, burst + 1);
          if (*rc::gen::arbitrary<bool>()) now = std::max(now, r.ready_at(now, tokens));
          if (!r.try_take(now, tokens)) break;
          open.push_back(all.size());
          all.push_back({now, tokens});
          RC_ASSERT(sum_since(all, now - own.period()) <= most);
          break;
        }
        case 1: {
          if (open.empty()) break;
          const std::size_t which = *rc::gen::inRange<std::size_t>(0, open.size());
          entry& e = all[open[which]];
          const std::uint64_t less = *rc::gen::inRange<std::uint64_t>(0, e.tokens + 1);
          e.tokens -= less;
          r.refund(now, less, e.at);
          open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));
          break;
        }
        default: {
          const std::uint64_t more = *rc::gen::inRange<std::uint64_t>(0, most / 4 + 1);
          all.push_back({now, more});
          r.charge(now, more);
          break;
        }
      }
      RC_ASSERT(r.available(now) <= static_cast<std::int64_t>(burst));
    }
  }));
}

TEST_CASE("property: a request is ready at the instant that is told, and not before", "[window_log]") {
  CHECK(rc::check("ready_at against can_take", [] {
    const rate own = any_strict_rate();
    const auto most = static_cast<std::uint64_t>(own.tokens());
    const std::uint64_t burst = *rc::gen::inRange<std::uint64_t>(1, most + 1);
    strict_rate r{own, burst, *rc::gen::inRange<std::uint64_t>(0, burst + 1)};
    time_point now = start;
    for (int i = 0; i < 100; ++i) {
      now += any_step(own);
      if (*rc::gen::weightedElement<bool>({{1, true}, {9, false}})) {
        r.charge(now, *rc::gen::inRange<std::uint64_t>(0, most + 1));
      }
      const std::uint64_t tokens = *rc::gen::inRange<std::uint64_t>(1, burst + 1);
      const time_point ready = r.ready_at(now, tokens);
      RC_ASSERT(ready >= now);
      RC_ASSERT((ready == now) == r.can_take(now, tokens));
      if (ready > now) RC_ASSERT(!r.can_take(ready - 1ns, tokens));
      RC_ASSERT(r.can_take(ready, tokens));
      if (*rc::gen::arbitrary<bool>()) {
        now = ready;
        RC_ASSERT(r.try_take(now, tokens));
      }
    }
  }));
}

TEST_CASE("property: under constant demand 95 of 100 tokens are used", "[window_log]") {
  CHECK(rc::check("the use under constant demand", [] {
    const rate own{*rc::gen::inRange<std::int64_t>(1, 2000),
                   duration{*rc::gen::element<std::int64_t>(1'000'000, 1'000'000'000, 60'000'000'000)}};
    const auto most = static_cast<std::uint64_t>(own.tokens());
    const std::uint64_t burst = *rc::gen::inRange<std::uint64_t>(1, most + 1);
    strict_rate r{own, burst, *rc::gen::inRange<std::uint64_t>(0, burst + 1)};
    // After any past.
    time_point now = start;
    for (int i = 0; i < 20; ++i) {
      now = r.ready_at(now + any_step(own), 1);
      RC_ASSERT(r.try_take(now, 1));
    }
    // The window may be full of those, and the bucket empty.
    constexpr std::int64_t windows = 10;
    const time_point end = now + (windows + 2) * own.period();
    const auto grants = grants_until(r, now, end);
    RC_ASSERT(static_cast<std::int64_t>(grants.size()) * 100 >= own.tokens() * windows * 95);
  }));
}

}  // namespace window_log_test
