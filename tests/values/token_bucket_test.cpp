#include "canigo/algorithms/token_bucket.hpp"

#include "canigo/error.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <ostream>
#include <rapidcheck.h>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::errc;
using canigo::rate;
using canigo::saturating_add;
using canigo::time_point;
using canigo::token_bucket;
using canigo::detail::int128;

namespace canigo {

// How RapidCheck prints the rate of a counterexample.
static void showValue(const rate& value, std::ostream& os) { os << to_string(value); }

}  // namespace canigo

namespace {

constexpr time_point bucket_start{duration{1'000'000'000'000}};
constexpr duration year = 365 * 24h;

// What a token bucket is, in exact arithmetic: the level is counted in units of 1/period of a token. What came in
// during the nanosecond in which it became full is not cut off before the next one.
struct bucket_model {
  std::int64_t tokens, period;  // the rate
  std::int64_t burst;
  int128 level;
  time_point last;

  bucket_model(const rate& r, std::int64_t depth, std::int64_t initial, time_point now)
      : tokens(r.tokens()), period(r.period().count()), burst(depth), level(int128{initial} * period), last(now) {}

  void advance(time_point now) {
    if (now <= last) return;
    level += int128{(now - last).count()} * tokens;
    if (level >= brim() + tokens) level = brim();
    last = now;
  }
  bool try_take(std::int64_t n) {
    if (n > burst || level < int128{n} * period) return false;
    level -= int128{n} * period;
    return true;
  }
  void refund(std::int64_t n) { level = std::min(brim(), level + int128{n} * period); }
  void charge(std::int64_t n) { level -= int128{n} * period; }
  void set_burst(std::int64_t depth) {
    burst = depth;
    level = std::min(level, brim());
  }
  int128 brim() const { return int128{burst} * period; }
  std::int64_t available() const {
    const int128 whole = level / period - (level % period < 0);
    return std::min(burst, static_cast<std::int64_t>(whole));
  }
};

// Rates of every size, with awkward ratios among them.
rc::Gen<rate> any_bucket_rate() {
  return rc::gen::exec([] {
    const auto period =
        *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 50), rc::gen::inRange<std::int64_t>(1, 10'000'000'000),
                        rc::gen::element<std::int64_t>(1'000'000'000, 60'000'000'000, 86'400'000'000'000),
                        rc::gen::inRange<std::int64_t>(1, 315'360'000'000'000'001));  // 10 years
    const auto most = std::min<std::int64_t>(period, 1'000'000'000);
    const auto tokens = *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(most, 20) + 1),
                                        rc::gen::inRange<std::int64_t>(1, most + 1));
    return rate{tokens, duration{period}};
  });
}

rc::Gen<std::int64_t> any_burst() {
  return rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 10), rc::gen::inRange<std::int64_t>(1, 1'000'000),
                        rc::gen::inRange<std::int64_t>(1, std::int64_t{1} << 50));
}

// A step in time that matters to `r`: nothing, a nanosecond, about some tokens' worth, or very long.
duration any_step(const rate& r) {
  const auto wobble = *rc::gen::inRange<std::int64_t>(-2, 3);
  const auto worth = r.time_for(*rc::gen::inRange<std::uint64_t>(0, 6)).count();
  return duration{
      *rc::gen::weightedOneOf<std::int64_t>({{2, rc::gen::just<std::int64_t>(0)},
                                             {2, rc::gen::inRange<std::int64_t>(0, 5)},
                                             {6, rc::gen::just(std::max<std::int64_t>(0, worth + wobble))},
                                             {3, rc::gen::inRange<std::int64_t>(0, worth + 2)},
                                             {1, rc::gen::inRange<std::int64_t>(0, 4'000'000'000'000'000)}})};
}

// When `count` acquires that arrive at `now` go: each as early as the bucket lets it.
std::vector<std::int64_t> schedule_ms(token_bucket& bucket, time_point now, int count) {
  std::vector<std::int64_t> times;
  for (int i = 0; i < count; ++i) {
    const time_point t = bucket.ready_at(now, 1);
    REQUIRE(bucket.try_take(t, 1));
    times.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(t - now).count());
  }
  return times;
}

}  // namespace

TEST_CASE("an empty bucket gives its first token a full interval later", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 1, 0, bucket_start};
  CHECK_FALSE(bucket.try_take(bucket_start, 1));
  CHECK(bucket.available(bucket_start) == 0);
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 200ms);
  CHECK_FALSE(bucket.try_take(bucket_start + 200ms - 1ns, 1));
  CHECK(bucket.try_take(bucket_start + 200ms, 1));
  CHECK(bucket.ready_at(bucket_start + 200ms, 1) == bucket_start + 400ms);
}

TEST_CASE("a bucket starts with its initial tokens", "[token_bucket]") {
  token_bucket bucket{rate{10, 3s}, 5, 3, bucket_start};
  CHECK(bucket.burst() == 5);
  CHECK(bucket.rate() == rate{10, 3s});
  CHECK(bucket.available(bucket_start) == 3);
  CHECK_FALSE(bucket.try_take(bucket_start, 4));
  CHECK(bucket.try_take(bucket_start, 3));
  CHECK(bucket.available(bucket_start) == 0);
  CHECK(bucket.available(bucket_start + 300ms) == 1);
  CHECK(bucket.available(bucket_start + 1h) == 5);
}

TEST_CASE("S5: burst 1 after an idle time gives one at once, then one per interval", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 1, 0, bucket_start};
  CHECK(schedule_ms(bucket, bucket_start + 2150ms, 6) == std::vector<std::int64_t>{0, 200, 400, 600, 800, 1000});
}

TEST_CASE("S6: burst 5 after an idle time gives exactly five at once", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 5, 0, bucket_start};
  CHECK(schedule_ms(bucket, bucket_start + 3s, 11) ==
        std::vector<std::int64_t>{0, 0, 0, 0, 0, 200, 400, 600, 800, 1000, 1200});
}

TEST_CASE("S7: a bucket with impossible arguments is refused with field, value and range", "[token_bucket]") {
  const auto r = rate::per_second(1);
  CHECK(refusal([&] { token_bucket(r, 0, 0, bucket_start); }).find("token_bucket.burst is 0; allowed: 1 to 2^62") == 0);
  CHECK(refusal([&] {
          token_bucket(r, token_bucket::max_burst + 1, 0, bucket_start);
        }).find("token_bucket.burst is 46") == 0);
  CHECK(refusal([&] {
          token_bucket(r, static_cast<std::uint64_t>(-1), 0, bucket_start);
        }).find("token_bucket.burst is 18446744073709551615; allowed") == 0);
  CHECK(refusal([&] {
          token_bucket(r, 5, 6, bucket_start);
        }).find("token_bucket.initial_tokens is 6; allowed: 0 to the burst of 5") == 0);
  token_bucket bucket{r, 5, 5, bucket_start};
  CHECK(refusal([&] { bucket.set_burst(bucket_start, 0); }).find("token_bucket.burst is 0") == 0);
  CHECK(bucket.burst() == 5);
  CHECK(bucket.available(bucket_start) == 5);
}

TEST_CASE("S19: a refund into a full bucket is capped at the burst", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 5, 5, bucket_start};
  bucket.refund(bucket_start, 3);
  CHECK(bucket.available(bucket_start) == 5);
  REQUIRE(bucket.try_take(bucket_start, 2));
  bucket.refund(bucket_start, 1);
  CHECK(bucket.available(bucket_start) == 4);
  bucket.refund(bucket_start, std::numeric_limits<std::uint64_t>::max());
  CHECK(bucket.available(bucket_start) == 5);
  CHECK_FALSE(bucket.try_take(bucket_start, 6));
  CHECK(bucket.try_take(bucket_start, 5));
}

TEST_CASE("S19: a charge below empty delays the next token by exactly the debt", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 5, 2, bucket_start};
  bucket.charge(bucket_start, 5);
  CHECK(bucket.available(bucket_start) == -3);
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 800ms);
  CHECK_FALSE(bucket.try_take(bucket_start + 800ms - 1ns, 1));
  CHECK(bucket.try_take(bucket_start + 800ms, 1));
}

TEST_CASE("a request above the burst never succeeds, but says when its tokens have come", "[token_bucket]") {
  token_bucket bucket{rate::per_second(5), 2, 2, bucket_start};
  CHECK_FALSE(bucket.try_take(bucket_start + 1h, 3));
  CHECK_FALSE(bucket.can_take(bucket_start + 1h, 3));
  // Two are there at once, five more are an interval apart each.
  CHECK(bucket.ready_at(bucket_start, 7) == bucket_start + 1s);
  CHECK(bucket.ready_at(bucket_start + 1h, 7) == bucket_start + 1h + 1s);
  CHECK(bucket.available(bucket_start + 1h) == 2);
}

TEST_CASE("a new rate goes on from the tokens that are there", "[token_bucket]") {
  token_bucket bucket{rate::per_hour(1), 10, 0, bucket_start};
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 1h);
  bucket.set_rate(bucket_start, rate::per_second(100));
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 10ms);
  // Half a token has come; the other half comes at half the speed.
  bucket.set_rate(bucket_start + 5ms, rate::per_second(50));
  CHECK(bucket.ready_at(bucket_start + 5ms, 1) == bucket_start + 15ms);
  CHECK(bucket.available(bucket_start + 5ms) == 0);
  bucket.set_rate(bucket_start + 1s, rate::per_second(1));
  CHECK(bucket.available(bucket_start + 1s) == 10);
  CHECK(bucket.rate() == rate::per_second(1));
}

TEST_CASE("a new rate lets a debt stand", "[token_bucket]") {
  token_bucket bucket{rate::per_second(1), 1, 0, bucket_start};
  bucket.charge(bucket_start, 4);
  bucket.set_rate(bucket_start, rate::per_second(10));
  CHECK(bucket.available(bucket_start) == -4);
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 500ms);
}

TEST_CASE("a deeper bucket gets no tokens as a present, a shallower one loses the surplus", "[token_bucket]") {
  token_bucket bucket{rate::per_second(1), 5, 5, bucket_start};
  bucket.set_burst(bucket_start, 10);
  CHECK(bucket.available(bucket_start) == 5);
  CHECK(bucket.available(bucket_start + 3s) == 8);
  bucket.set_burst(bucket_start + 3s, 4);
  CHECK(bucket.available(bucket_start + 3s) == 4);
  bucket.set_burst(bucket_start + 3s, 100);
  CHECK(bucket.available(bucket_start + 3s) == 4);
  CHECK(bucket.available(bucket_start + 3s + 1000ms) == 5);
}

TEST_CASE("time that goes backwards adds no credit and breaks nothing", "[token_bucket]") {
  token_bucket bucket{rate::per_second(1), 3, 3, bucket_start};
  REQUIRE(bucket.try_take(bucket_start, 3));
  CHECK_FALSE(bucket.try_take(bucket_start - 1h, 1));
  CHECK(bucket.available(bucket_start - 1h) == 0);
  CHECK(bucket.ready_at(bucket_start - 1h, 1) == bucket_start + 1s);
  bucket.refund(bucket_start - 2h, 1);
  CHECK(bucket.available(bucket_start) == 1);
  CHECK(bucket.try_take(bucket_start - 1h, 1));
  bucket.set_rate(bucket_start - 1h, rate::per_second(2));
  bucket.set_burst(bucket_start - 1h, 1);
  CHECK(bucket.ready_at(bucket_start, 1) == bucket_start + 500ms);
  CHECK(bucket.try_take(bucket_start + 500ms, 1));
  // What may be taken before the beginning is ready at once.
  const token_bucket early{rate::per_second(1), 3, 3, bucket_start};
  CHECK(early.ready_at(bucket_start - 1h, 3) == bucket_start - 1h);
  // A full bucket stays full for a thread whose clock reading is a little older.
  token_bucket full{rate::per_second(1), 2, 0, bucket_start};
  REQUIRE(full.try_take(bucket_start + 10s, 1));
  CHECK(full.try_take(bucket_start + 10s - 1ns, 1));
  CHECK_FALSE(full.try_take(bucket_start + 10s - 1ns, 1));
}

TEST_CASE("what was cut off at the brim does not come back with an older clock reading", "[token_bucket]") {
  const auto r = rate::per_second(1);
  SECTION("after a refund") {
    token_bucket bucket{r, 5, 0, bucket_start};
    bucket.refund(bucket_start + 4s, 3);
    REQUIRE(bucket.try_take(bucket_start + 2s, 5));
    CHECK(bucket.available(bucket_start + 4s) == 0);
  }
  SECTION("after a cut in the burst") {
    token_bucket bucket{r, 10, 0, bucket_start};
    bucket.set_burst(bucket_start + 8s, 4);
    REQUIRE(bucket.try_take(bucket_start + 5s, 4));
    CHECK(bucket.available(bucket_start + 8s) == 0);
  }
  SECTION("after a refund into a full bucket") {
    token_bucket bucket{r, 5, 5, bucket_start};
    bucket.refund(bucket_start - 1h, 1);
    REQUIRE(bucket.try_take(bucket_start - 1h, 5));
    CHECK(bucket.available(bucket_start) == 0);
  }
}

TEST_CASE("the ends of the clock are safe", "[token_bucket]") {
  for (const rate& r : {rate{1, 1ns}, rate{1, 10 * year}, rate{1, duration::max()}, rate{7, 3s}}) {
    token_bucket bucket{r, token_bucket::max_burst, 0, time_point::min()};
    CHECK_FALSE(bucket.try_take(time_point::min(), 1));
    CHECK(bucket.available(time_point::min()) == 0);
    CHECK(bucket.ready_at(time_point::min(), 1) == time_point::min() + r.time_for(1));
    const auto most = bucket.available(time_point::max());
    CHECK(most == static_cast<std::int64_t>(std::min<int128>(
                      token_bucket::max_burst, ((int128{1} << 64) - 1) * r.tokens() / r.period().count())));
    CHECK(bucket.try_take(time_point::max(), static_cast<std::uint64_t>(most)));
    CHECK(bucket.available(time_point::max()) == 0);
    CHECK(bucket.ready_at(time_point::max(), 1) == time_point::max());
    bucket.set_rate(time_point::max(), rate{3, 7s});
    bucket.set_burst(time_point::min(), 1);
    CHECK(bucket.ready_at(time_point::min(), std::numeric_limits<std::uint64_t>::max()) == time_point::max());
  }
  // From here the end is 192 years away, from the beginning of the clock 292.
  token_bucket late{rate{1, 100 * year}, 1, 0, time_point{100 * year}};
  CHECK(late.ready_at(time_point{100 * year}, 1) == time_point{200 * year});
  CHECK(late.ready_at(time_point{100 * year}, 2) == time_point::max());
  CHECK(late.ready_at(time_point{100 * year}, 3) == time_point::max());
}

TEST_CASE("a new rate near the beginning of time is safe", "[token_bucket]") {
  // A tenth of a token is worth ten years at the new rate: longer ago than there is time.
  token_bucket bucket{rate{1, 10ns}, 1, 0, time_point::min()};
  bucket.set_rate(time_point::min() + 1ns, rate{1, 100 * year});
  CHECK(bucket.available(time_point::min() + 1ns) == 0);
  CHECK(bucket.ready_at(time_point::min() + 1ns, 1) == time_point::min() + 100 * year);
}

TEST_CASE("a debt saturates instead of wrapping", "[token_bucket]") {
  constexpr auto everything = std::numeric_limits<std::uint64_t>::max();
  for (const rate& r : {rate{1, 1ns}, rate{1, duration::max()}, rate{999'999'999, 1s}}) {
    token_bucket bucket{r, 5, 5, bucket_start};
    for (int i = 0; i < 5; ++i) bucket.charge(bucket_start, everything);
    CHECK(bucket.available(bucket_start) < -(std::int64_t{1} << 62));
    CHECK_FALSE(bucket.try_take(time_point::max(), 1));
    CHECK_FALSE(bucket.try_take(bucket_start, 0));
    CHECK(bucket.ready_at(bucket_start, everything) == time_point::max());
    bucket.set_burst(bucket_start, token_bucket::max_burst);
    CHECK_FALSE(bucket.try_take(bucket_start, token_bucket::max_burst));
    CHECK_FALSE(bucket.try_take(time_point::max(), 1));
    bucket.set_rate(bucket_start, rate{2, 3ns});
    CHECK_FALSE(bucket.try_take(bucket_start + 10 * year, 1));
    bucket.refund(bucket_start, everything);
    CHECK(bucket.try_take(bucket_start, 1));
  }
}

TEST_CASE("the schedule has not drifted after 100 years", "[token_bucket]") {
  const time_point origin = time_point{} - 10 * year;
  SECTION("tokens taken one by one at a rate whose interval is no whole nanosecond") {
    const rate r{7, 3s};
    token_bucket bucket{r, 1, 1, origin};
    REQUIRE(bucket.try_take(origin, 1));
    for (std::uint64_t i = 1; i <= 200'000; ++i) {
      const time_point t = bucket.ready_at(origin, 1);
      REQUIRE(t == origin + r.time_for(i));
      REQUIRE(bucket.try_take(t, 1));
    }
    // The rest of the century at once.
    const std::uint64_t many = 7'358'400'000;  // 100 years of 7 per 3 s
    bucket.charge(origin, many - 200'000);
    CHECK(bucket.ready_at(origin, 1) == origin + r.time_for(many + 1));
    CHECK(origin + r.time_for(many) == origin + 100 * year);
    CHECK_FALSE(bucket.try_take(origin + r.time_for(many + 1) - 1ns, 1));
    CHECK(bucket.try_take(origin + r.time_for(many + 1), 1));
  }
  SECTION("one per ten years") {
    token_bucket bucket{rate{1, 10 * year}, 1, 0, origin};
    for (int i = 1; i <= 10; ++i) {
      CHECK_FALSE(bucket.try_take(origin + i * 10 * year - 1ns, 1));
      CHECK(bucket.try_take(origin + i * 10 * year, 1));
    }
  }
  SECTION("a billion a second, never idle") {
    // Taken in 100,000 uneven portions, so that the count since the origin passes 2^62 and is moved on.
    token_bucket bucket{rate::per_second(1'000'000'000), token_bucket::max_burst, 0, origin};
    const std::int64_t end = (100 * year).count();
    std::int64_t given = 0;
    std::int64_t elapsed = 0;
    for (std::int64_t i = 0; elapsed < end; ++i) {
      elapsed = std::min(end, elapsed + end / 100'000 + i % 1009);
      const auto there = bucket.available(origin + duration{elapsed});
      REQUIRE(there == elapsed - given);
      const auto portion = there - i % 3;
      REQUIRE(bucket.try_take(origin + duration{elapsed}, static_cast<std::uint64_t>(portion)));
      given += portion;
    }
    CHECK(bucket.available(origin + 100 * year) == end - given);
    CHECK_FALSE(bucket.try_take(origin + 100 * year, static_cast<std::uint64_t>(end - given + 1)));
  }
  SECTION("a billion a second from one end of the clock to the other") {
    token_bucket bucket{rate{1, 1ns}, token_bucket::max_burst, 0, time_point::min()};
    const duration step{std::int64_t{1} << 55};
    time_point now = time_point::min();
    for (int i = 1; i < 512; ++i) {
      now += step;
      REQUIRE(bucket.available(now) == step.count());
      REQUIRE(bucket.try_take(now, static_cast<std::uint64_t>(step.count())));
      REQUIRE(bucket.ready_at(now, 1) == now + 1ns);
    }
  }
  SECTION("a billion a second from one end of the clock to the other, in debt") {
    token_bucket bucket{rate{1, 1ns}, token_bucket::max_burst, 0, time_point::min()};
    const duration step{(std::int64_t{1} << 62) - 1};
    time_point now = time_point::min();
    for (int i = 1; i <= 4; ++i) {
      now += step;
      bucket.charge(now, std::uint64_t{1} << 62);
      REQUIRE(bucket.available(now) == -i);
    }
  }
  SECTION("awkward ratio at full speed") {
    const rate r{999'999'937, 1'000'000'007ns};
    token_bucket bucket{r, token_bucket::max_burst, 0, origin};
    int128 given = 0;
    for (int i = 1; i <= 1000; ++i) {
      const duration elapsed = 100 * year / 1000 * i;
      const int128 expected = int128{elapsed.count()} * r.tokens() / r.period().count();
      REQUIRE(bucket.available(origin + elapsed) == static_cast<std::int64_t>(expected - given));
      REQUIRE(bucket.try_take(origin + elapsed, static_cast<std::uint64_t>(expected - given)));
      given = expected;
    }
  }
}

TEST_CASE("a bucket decides as exact arithmetic does", "[token_bucket]") {
  CHECK(rc::check("the same decisions as the model over any sequence", [] {
    const rate r = *any_bucket_rate();
    const std::int64_t depth = *any_burst();
    const std::int64_t initial = *rc::gen::inRange<std::int64_t>(0, depth + 1);
    token_bucket bucket{r, static_cast<std::uint64_t>(depth), static_cast<std::uint64_t>(initial), bucket_start};
    bucket_model exact{r, depth, initial, bucket_start};
    time_point now = bucket_start;
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      now = saturating_add(now, any_step(r));
      exact.advance(now);
      const auto n =
          *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 4), rc::gen::inRange<std::int64_t>(0, depth + 2));
      const auto tokens = static_cast<std::uint64_t>(n);
      switch (*rc::gen::weightedElement<int>({{6, 0}, {2, 1}, {2, 2}, {1, 3}})) {
        case 0: {
          const bool can = bucket.can_take(now, tokens);
          const bool model_takes = exact.try_take(n);
          RC_ASSERT(can == model_takes);
          RC_ASSERT(bucket.try_take(now, tokens) == model_takes);
          break;
        }
        case 1:
          bucket.refund(now, tokens);
          exact.refund(n);
          break;
        case 2:
          bucket.charge(now, tokens);
          exact.charge(n);
          break;
        case 3: {
          const std::int64_t new_depth = *any_burst();
          bucket.set_burst(now, static_cast<std::uint64_t>(new_depth));
          exact.set_burst(new_depth);
          break;
        }
      }
      RC_ASSERT(bucket.available(now) == exact.available());
    }
  }));
}

TEST_CASE("R4: what is ready at an instant is refused a nanosecond earlier and granted then", "[token_bucket]") {
  CHECK(rc::check("ready_at is tight", [] {
    const rate r = *any_bucket_rate();
    const std::int64_t depth = *any_burst();
    token_bucket bucket{r, static_cast<std::uint64_t>(depth),
                        static_cast<std::uint64_t>(*rc::gen::inRange<std::int64_t>(0, depth + 1)), bucket_start};
    time_point now = bucket_start;
    const int steps = *rc::gen::inRange(1, 30);
    for (int i = 0; i < steps; ++i) {
      now = saturating_add(now, any_step(r));
      if (*rc::gen::inRange(0, 4) == 0) bucket.charge(now, *rc::gen::inRange<std::uint64_t>(0, 5));
      const auto n =
          static_cast<std::uint64_t>(*rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(depth, 10) + 1));
      const time_point t = bucket.ready_at(now, n);
      RC_ASSERT(t >= now);
      if (t == time_point::max()) break;
      if (t > now) {
        RC_ASSERT(!bucket.can_take(now, n));
        RC_ASSERT(!token_bucket{bucket}.try_take(t - 1ns, n));
      }
      RC_ASSERT(bucket.ready_at(t, n) == t);
      RC_ASSERT(bucket.try_take(t, n));
      now = t;
    }
  }));
}

TEST_CASE("tokens beyond the burst have come when ready_at says so", "[token_bucket]") {
  CHECK(rc::check("the last of n tokens taken as they come", [] {
    const rate r = *any_bucket_rate();
    const auto depth = *rc::gen::inRange<std::uint64_t>(1, 5);
    token_bucket bucket{r, depth, *rc::gen::inRange<std::uint64_t>(0, depth + 1), bucket_start};
    const time_point now = bucket_start + any_step(r);
    const auto n = *rc::gen::inRange<std::uint64_t>(1, 20);
    const time_point expected = bucket.ready_at(now, n);
    time_point t = now;
    for (std::uint64_t i = 0; i < n; ++i) {
      t = bucket.ready_at(t, 1);
      if (t == time_point::max()) break;
      RC_ASSERT(bucket.try_take(t, 1));
    }
    RC_ASSERT(t == expected);
  }));
}

TEST_CASE("R1, R2: every window holds at most burst + t·rate, and a saturated one at least t·rate", "[token_bucket]") {
  CHECK(rc::check("window bounds over all pairs of grants", [] {
    const rate r = *any_bucket_rate();
    const rate exact = r.reduced();
    const std::int64_t depth = *rc::gen::inRange<std::int64_t>(1, 20);
    const bool saturated = *rc::gen::arbitrary<bool>();
    token_bucket bucket{r, static_cast<std::uint64_t>(depth), 0, bucket_start};
    std::vector<std::pair<time_point, std::int64_t>> grants;
    time_point now = bucket_start;
    for (int i = 0; i < 60; ++i) {
      const std::int64_t n = saturated ? 1 : *rc::gen::inRange<std::int64_t>(1, depth + 1);
      if (!saturated) now = saturating_add(now, any_step(r));
      const time_point t =
          saturated || *rc::gen::arbitrary<bool>() ? bucket.ready_at(now, static_cast<std::uint64_t>(n)) : now;
      if (t == time_point::max()) break;
      now = t;
      if (bucket.try_take(now, static_cast<std::uint64_t>(n))) grants.emplace_back(now, n);
    }
    const auto worth = [&](duration t) { return int128{t.count()} * r.tokens() / r.period().count(); };
    for (std::size_t i = 0; i < grants.size(); ++i) {
      std::int64_t sum = 0;
      for (std::size_t j = i; j < grants.size(); ++j) {
        sum += grants[j].second;
        // Strictly less than a nanosecond more; with a whole interval, tokens() == 1, that is no more at all.
        const int128 elapsed = (grants[j].first - grants[i].first).count();
        RC_ASSERT(int128{sum - depth} * exact.period().count() < (elapsed + 1) * exact.tokens());
        if (saturated) RC_ASSERT(sum >= worth(grants[j].first - grants[i].first));
      }
    }
    // The fullest a saturated window can be without a grant at its ends: from just after one to the start.
    if (saturated && !grants.empty())
      RC_ASSERT(static_cast<std::int64_t>(grants.size()) >= worth(grants.back().first - bucket_start));
  }));
}

TEST_CASE("R5: a change of rate keeps the level, rounding down by less than a nanosecond", "[token_bucket]") {
  CHECK(rc::check("set_rate against exact arithmetic", [] {
    const rate before = *any_bucket_rate();
    const rate after = *any_bucket_rate();
    const std::int64_t depth = *rc::gen::inRange<std::int64_t>(1, 1000);
    const std::int64_t initial = *rc::gen::inRange<std::int64_t>(0, depth + 1);
    token_bucket bucket{before, static_cast<std::uint64_t>(depth), static_cast<std::uint64_t>(initial), bucket_start};
    bucket_model exact{before, depth, initial, bucket_start};
    const std::int64_t debt = *rc::gen::inRange<std::int64_t>(0, 20);
    bucket.charge(bucket_start, static_cast<std::uint64_t>(debt));
    exact.charge(debt);
    const time_point now = bucket_start + any_step(before);
    exact.advance(now);
    const auto level = bucket.available(now);
    bucket.set_rate(now, after);
    RC_ASSERT(bucket.rate() == after);
    // A whole number of tokens may be missing a nanosecond's worth.
    RC_ASSERT(bucket.available(now) <= level);
    RC_ASSERT(bucket.available(now + 1ns) >= level);

    const std::int64_t n = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(depth, 10) + 1);
    const time_point t = bucket.ready_at(now, static_cast<std::uint64_t>(n));
    const int128 missing = int128{n} * exact.period - exact.level;  // in 1/period of a token
    if (missing <= 0) {
      RC_ASSERT(t <= now + 1ns);
    } else if (t != time_point::max()) {
      // missing/period_before · period_after/tokens_after, in parts small enough for 128 bits
      const int128 whole = missing / exact.period;
      const int128 part = missing % exact.period;
      const int128 whole_ns = whole * after.period().count();
      const int128 part_ns = part * after.period().count() / exact.period;
      const int128 earliest = (whole_ns + part_ns) / after.tokens();
      RC_ASSERT((t - now).count() >= earliest);
      RC_ASSERT((t - now).count() <= earliest + 3);  // rounding up once here, once there, once in the bucket
    }
  }));
}

TEST_CASE("M1: a clock that steps back never yields more than one that stands still", "[token_bucket]") {
  CHECK(rc::check("backward steps against the model, which ignores them", [] {
    const rate r = *any_bucket_rate();
    const std::int64_t depth = *rc::gen::inRange<std::int64_t>(1, 20);
    token_bucket bucket{r, static_cast<std::uint64_t>(depth), static_cast<std::uint64_t>(depth), bucket_start};
    bucket_model exact{r, depth, depth, bucket_start};
    time_point now = bucket_start;
    time_point last = bucket_start;
    for (int i = 0; i < 40; ++i) {
      now = saturating_add(now, *rc::gen::arbitrary<bool>() ? any_step(r) : -any_step(r) / 2);
      now = std::max(now, bucket_start - year);
      last = std::max(last, now);
      exact.advance(now);
      const std::int64_t n = *rc::gen::inRange<std::int64_t>(1, depth + 1);
      RC_ASSERT(bucket.available(now) <= exact.available());
      if (bucket.try_take(now, static_cast<std::uint64_t>(n))) RC_ASSERT(exact.try_take(n));
      // Once the clock has caught up, nothing is lost either.
      RC_ASSERT(bucket.available(last) == exact.available());
    }
  }));
}
