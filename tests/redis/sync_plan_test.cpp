// When a limit calls Redis, and what becomes of requests without it: decisions in a table, without Redis and without
// time.
#include "../lib/redis/sync_plan.hpp"

#include "canigo/error.hpp"
#include "canigo/redis/error.hpp"
#include "canigo/redis/scheduler.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "../lib/redis/session.hpp"
#include "support/catch.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <system_error>

namespace sync_plan_test {

using namespace std::chrono_literals;
using canigo::duration;
using canigo::errc;
using canigo::time_point;
using canigo::redis::failure_mode;
using canigo::redis::detail::limit_request;
using canigo::redis::detail::limit_settings;
using canigo::redis::detail::longest_round_trip;
using canigo::redis::detail::sync_plan;

constexpr time_point start{1h};
constexpr time_point never = time_point::max();
const std::error_code no_answer = make_error_code(errc::timed_out);
const limit_settings ten_per_second{.rates = {{{10, 1'000'000, 4}}}, .rate_count = 1};
constexpr sync_plan::needs nothing{};
constexpr sync_plan::needs waiter{.is_registered = true, .has_waiters = true, .is_engaged = true};
constexpr sync_plan::needs new_waiter{.has_waiters = true, .has_fresh = true, .is_engaged = true};
constexpr sync_plan::needs holder{.is_registered = true, .is_engaged = true, .may_hold_there = true};

sync_plan plan_with(failure_mode mode, duration lease = 10s, duration give_up = 10s) {
  return sync_plan{{.lease = lease, .give_up = give_up, .on_failure = mode}, 1};
}

/// A call that fails after `took`.
void fail_call(sync_plan& p, time_point begin, duration took, bool is_permanent = false) {
  p.call_begins(begin, 0ms);
  p.call_ended();
  p.failed(begin + took, no_answer, "no answer", is_permanent, ten_per_second);
}

/// A call that Redis answers at once.
void answer_call(sync_plan& p, time_point now, duration renew_in = 3s) {
  p.call_begins(now, 0ms);
  p.call_ended();
  p.recovered();
  p.answered(now, renew_in);
}

limit_request asked(duration since, time_point deadline = never) {
  limit_request r{{.deadline = deadline}, true};
  r.since = start + since;
  return r;
}

TEST_CASE("once Redis has answered no call waits for an earlier one's failure") {
  sync_plan p = plan_with(failure_mode::closed());
  fail_call(p, start, 1s);
  CHECK(p.is_before_retry(start + 1s));
  answer_call(p, start + 1s);
  CHECK_FALSE(p.is_before_retry(start + 1s));
  CHECK(p.next_call(new_waiter, start + 1s) == start + 1s);
}

TEST_CASE("a limit that works calls when there is something to tell or to ask") {
  struct {
    const char* what;
    sync_plan::needs n;
    time_point when;
  } const cases[]{
      {"nothing", nothing, never},
      {"a session to renew", holder, start + 3s},
      {"a waiter that Redis knows", waiter, start + 3s},
      {"a waiter that it does not know", new_waiter, start},
      {"a permit given back", {.is_registered = true, .has_returns = true}, start},
      {"a waiter that left before Redis heard of the session", {.has_returns = true}, never},
      {"a changed rate", {.has_changes = true}, start},
      {"a session to end", {.is_registered = true, .is_leaving = true}, start},
      {"a session that has ended", {.is_leaving = true}, never},
      {"a change, and no session", {.has_changes = true, .is_leaving = true}, start},
  };
  for (const auto& c : cases) {
    CAPTURE(c.what);
    sync_plan p = plan_with(failure_mode::closed());
    answer_call(p, start);
    CHECK(p.next_call(c.n, start) == c.when);
    CHECK(p.next_look(c.n, start) == never);
    p.call_begins(start, 0ms);
    CHECK(p.next_call(c.n, start) == never);  // one call at a time
  }
}

TEST_CASE("a hint leads to a call if there is somebody to gain by it, and a time only if there is a waiter") {
  sync_plan p = plan_with(failure_mode::closed());
  answer_call(p, start);
  p.is_useful_at(start + 2s);
  p.is_useful_at(start + 1s);
  CHECK(p.next_call(holder, start) == start + 3s);
  CHECK(p.next_call(waiter, start) == start + 1s);
  p.hint();
  CHECK(p.next_call(nothing, start) == never);
  CHECK(p.next_call(holder, start) == start);
  answer_call(p, start);
  CHECK(p.next_call(waiter, start) == start + 3s);  // the call has answered both
}

TEST_CASE("while requests come and Redis fails, a probe is always on its way, or comes within half a second") {
  for (const auto mode : {failure_mode::closed(), failure_mode::open(), failure_mode::local(0.5)}) {
    for (const duration took : {1ms, 300ms, 2000ms}) {
      CAPTURE(static_cast<int>(mode.what()), took.count());
      sync_plan p = plan_with(mode);
      fail_call(p, start, took);
      const bool is_closed = mode.what() == failure_mode::kind::closed;
      time_point now = start + took;
      for (int calls = 0; calls < 200; ++calls) {
        // Closed keeps its waiters. The other modes let requests through, and have none left when they look.
        p.request_came();
        const auto n = is_closed ? new_waiter : nothing;
        const time_point next = p.next_call(n, now);
        REQUIRE(next <= now + 500ms);
        now = std::max(now, next);
        CHECK(p.is_failing());
        CHECK(p.time_limit(nothing, 0ms) <= 500ms);
        fail_call(p, now, took);
        now += took;
      }
    }
  }
}

TEST_CASE("each failure in a row may put the next call further off") {
  sync_plan p = plan_with(failure_mode::closed());
  time_point now = start;
  duration longest{};
  for (int i = 0; i < 50; ++i) {
    fail_call(p, now, 0ms);
    const duration d = p.next_call(new_waiter, now) - now;
    if (i == 0) CHECK(d <= 50ms);
    longest = std::max(longest, d);
    now += d;
  }
  CHECK(longest > 250ms);
  CHECK(longest <= 500ms);
  answer_call(p, now);
  fail_call(p, now, 0ms);
  CHECK(p.next_call(new_waiter, now) - now <= 50ms);
}

TEST_CASE("a limit without waiters leaves a Redis that fails alone, and does not hold the loop") {
  for (const auto mode : {failure_mode::closed(), failure_mode::open(), failure_mode::local(0.5)}) {
    sync_plan p = plan_with(mode);
    answer_call(p, start);
    fail_call(p, start + 1s, 1s);
    // After the last waiter: it may have left something in Redis, which its session takes along.
    for (const auto& n : {nothing, sync_plan::needs{.is_registered = true, .has_returns = true},
                          sync_plan::needs{.is_registered = true, .is_leaving = true}}) {
      CHECK(p.next_call(n, start + 2s) == never);
      CHECK(p.next_look(n, start + 2s) == never);
    }
    // But what others wait for is given back.
    CHECK(p.next_call({.is_registered = true, .has_returns = true, .may_hold_there = true}, start + 2s) <
          start + 2500ms);
  }
}

TEST_CASE("a client that was closed is never called again") {
  sync_plan p = plan_with(failure_mode::closed());
  p.stop();
  CHECK(p.next_call(new_waiter, start) == never);
  CHECK(p.is_failing());
}

TEST_CASE("a session that is to be made anew is made at once, in an outage too") {
  sync_plan p = plan_with(failure_mode::open());
  answer_call(p, start);
  p.call_again();
  CHECK(p.next_call(nothing, start) == never);
  fail_call(p, start, 0ms);
  p.call_again();
  CHECK(p.next_call(nothing, start) <= start + 500ms);
}

TEST_CASE("a call has time in proportion to the lease, and more on a slow line") {
  struct {
    duration lease;
    bool is_registered;
    duration answer_within;
    duration limit;
  } const cases[]{
      {10s, true, 0ms, 2s},  {3s, true, 0ms, 1s},    {30ms, true, 0ms, 20ms},   {30ms, false, 0ms, 1s},
      {10s, true, 1s, 2s},   {10s, true, 3s, 3s},    {10s, true, 1min, 4500ms}, {1s, true, 400ms, 400ms},
      {1s, true, 2s, 450ms}, {30ms, true, 1s, 20ms},
  };
  for (const auto& c : cases) {
    CAPTURE(c.lease.count(), c.is_registered, c.answer_within.count());
    const sync_plan p = plan_with(failure_mode::closed(), c.lease);
    CHECK(p.time_limit({.is_registered = c.is_registered, .has_waiters = true, .is_engaged = true}, c.answer_within) ==
          c.limit);
  }
  CHECK(longest_round_trip(10s) == 4500ms);
}

TEST_CASE("a call that only finds out whether Redis is back is short") {
  sync_plan p = plan_with(failure_mode::open());
  CHECK(p.time_limit(nothing, 0ms) == 2s);
  fail_call(p, start, 1s);
  CHECK(p.time_limit(nothing, 0ms) == 500ms);
  CHECK(p.time_limit(nothing, 3s) == 3s);
  CHECK(p.time_limit(waiter, 0ms) == 2s);
  CHECK(p.time_limit({.has_changes = true}, 0ms) == 2s);
}

TEST_CASE("requests that can't wait are decided after 0.2 s if the mode lets them through, else after 0.5 s") {
  struct {
    failure_mode mode;
    duration answer_within;
    duration late;
  } const cases[]{
      {failure_mode::open(), 0ms, 200ms},     {failure_mode::local(1), 100ms, 200ms},
      {failure_mode::closed(), 0ms, 500ms},   {failure_mode::open(), 900ms, 900ms},
      {failure_mode::closed(), 900ms, 900ms}, {failure_mode::open(), 1min, 2s},
      {failure_mode::closed(), 1min, 2s},
  };
  for (const auto& c : cases) {
    CAPTURE(static_cast<int>(c.mode.what()), c.answer_within.count());
    sync_plan p = plan_with(c.mode);
    CHECK_FALSE(p.is_late(start + 1h));
    p.call_begins(start, c.answer_within);
    CHECK(p.next_look(waiter, start) == start + c.late);
    CHECK_FALSE(p.turns_late(start + c.late - 1ns));
    CHECK_FALSE(p.is_away(start + c.late - 1ns, false));
    CHECK(p.is_away(start, true));  // the client knows before
    CHECK(p.turns_late(start + c.late));
    CHECK_FALSE(p.turns_late(start + c.late));  // once for each call
    CHECK(p.is_late(start + c.late));
    CHECK(p.is_away(start + c.late, false));
    CHECK(p.next_look(waiter, start + c.late) == never);
    p.call_ended();
    CHECK_FALSE(p.is_late(start + c.late));
  }
}

TEST_CASE("in the modes that let requests through, each is decided before its deadline") {
  for (const auto mode : {failure_mode::open(), failure_mode::local(0.5)}) {
    const sync_plan p = plan_with(mode);
    limit_request r = asked(0s, start + 2s);
    CHECK(p.end_of(r) == start + 1980ms);
    r.has_looked = true;
    CHECK(p.end_of(r) == start + 2s);
    CHECK(p.end_of(asked(0s, start + 40ms)) == start + 30ms);
    CHECK(p.end_of(asked(0s)) == never);
  }
  CHECK(plan_with(failure_mode::closed()).end_of(asked(0s, start + 2s)) == start + 2s);
}

TEST_CASE("in an outage only the requests that have waited so long give up") {
  sync_plan p = plan_with(failure_mode::closed(), 10s, 5s);
  CHECK(p.end_of(asked(0s)) == never);
  fail_call(p, start + 1s, 2s);
  CHECK(p.end_of(asked(-1h)) == start + 6s);  // from when the call was sent that failed first
  fail_call(p, start + 4s, 1s);
  CHECK(p.end_of(asked(-1h)) == start + 6s);
  CHECK(p.end_of(asked(3s)) == start + 8s);
  CHECK(p.end_of(asked(3s, start + 4s)) == start + 4s);
  answer_call(p, start + 5s);
  CHECK(p.end_of(asked(3s)) == never);
}

TEST_CASE("closed refuses requests in an outage, with the cause if trying again is of no use") {
  sync_plan p = plan_with(failure_mode::closed());
  CHECK_FALSE(p.refusal(true));
  CHECK_FALSE(p.refusal(false));
  fail_call(p, start, 1s);
  CHECK_FALSE(p.refusal(true));
  CHECK(p.refusal(false) == errc::store_unavailable);
  CHECK(p.decide(start + 1s, 1, time_point::min(), ten_per_second) == errc::store_unavailable);
  CHECK_FALSE(p.may_do_without(start + 1s));
  fail_call(p, start + 2s, 1s, true);
  CHECK(p.refusal(true) == no_answer);
  CHECK(p.refusal(false) == no_answer);
  CHECK(p.decide(start + 1s, 1, time_point::min(), ten_per_second) == no_answer);
  CHECK(p.cause() == no_answer);
  CHECK(p.cause_text() == "no answer");
  answer_call(p, start + 4s);
  CHECK_FALSE(p.refusal(false));
  CHECK_FALSE(p.cause());
  CHECK(p.cause_text().empty());
}

TEST_CASE("open lets every request through, except in a pause") {
  sync_plan p = plan_with(failure_mode::open());
  fail_call(p, start, 1s);
  CHECK_FALSE(p.refusal(false));
  for (int i = 0; i < 100; ++i) CHECK_FALSE(p.decide(start + 1s, 1000, time_point::min(), ten_per_second));
  CHECK(p.decide(start + 1s, 1, start + 2s, ten_per_second) == asio::error::would_block);
  p.look_again_for(start + 1s, 1, start + 2s);
  CHECK(p.next_look(waiter, start + 1s) == start + 2s);
}

TEST_CASE("local grants its share of the rate, which begins empty with the outage") {
  sync_plan p = plan_with(failure_mode::local(0.5));  // 5 a second, 2 at once
  fail_call(p, start - 1s, 1s);
  CHECK(p.decide(start, 1, time_point::min(), ten_per_second) == asio::error::would_block);
  p.look_again_for(start, 1, time_point::min());
  CHECK(p.next_look(waiter, start) == start + 200ms);
  CHECK_FALSE(p.decide(start + 200ms, 1, time_point::min(), ten_per_second));
  CHECK(p.decide(start + 200ms, 1, time_point::min(), ten_per_second) == asio::error::would_block);
  int granted = 0;
  for (int i = 0; i < 10; ++i) granted += p.decide(start + 10s, 1, time_point::min(), ten_per_second) ? 0 : 1;
  CHECK(granted == 2);
  // The next outage begins empty, too.
  answer_call(p, start + 10s);
  fail_call(p, start + 19s, 1s);
  CHECK(p.decide(start + 20s, 1, time_point::min(), ten_per_second) == asio::error::would_block);
}

TEST_CASE("processes that keep the limit otherwise are no outage: every mode refuses") {
  const std::error_code other = canigo::redis::error::other_shape;
  for (const auto mode : {failure_mode::closed(), failure_mode::open(), failure_mode::local(0.5)}) {
    sync_plan p = plan_with(mode);
    p.call_begins(start, 0ms);
    p.call_ended();
    p.failed(start, other, "other", true, ten_per_second);
    CHECK(p.refusal(true) == other);
    CHECK(p.decide(start, {1}, {}, ten_per_second) == other);
    CHECK_FALSE(p.may_do_without(start));
    p.recovered();
    CHECK_FALSE(p.refusal(true));
  }
}

TEST_CASE("a share follows a change of its rate, and never grants more than its burst") {
  sync_plan p = plan_with(failure_mode::local(0.5));  // 5 a second, 2 at once
  fail_call(p, start, 0ms);
  CHECK(p.decide(start + 1h, {3}, {}, ten_per_second) == errc::store_unavailable);
  limit_settings s = ten_per_second;
  s.rates[0].burst = 8;
  p.rates_changed(start + 1h, s);
  CHECK(p.decide(start + 1h, {3}, {}, s) == asio::error::would_block);
  CHECK_FALSE(p.decide(start + 2h, {3}, {}, s));
}

TEST_CASE("a share counts from when the late call began") {
  sync_plan p = plan_with(failure_mode::local(1));
  p.call_begins(start, 0ms);
  p.do_without_until_answer(ten_per_second);
  CHECK_FALSE(p.decide(start + 200ms, 2, time_point::min(), ten_per_second));
  CHECK(p.decide(start + 200ms, 1, time_point::min(), ten_per_second) == asio::error::would_block);
}

TEST_CASE("a failure is known while a call is under way, or until a second has passed without one") {
  sync_plan p = plan_with(failure_mode::open());
  CHECK_FALSE(p.may_do_without(start));
  fail_call(p, start, 1s);
  CHECK(p.may_do_without(start + 2s - 1ns));
  CHECK_FALSE(p.may_do_without(start + 2s));  // Redis is asked first, as it may be back
  p.call_begins(start + 1500ms, 0ms);
  CHECK(p.may_do_without(start + 1h));
  p.call_ended();
  p.failed(start + 3s, no_answer, {}, false, ten_per_second);
  p.call_begins(start + 5s, 0ms);
  CHECK_FALSE(p.may_do_without(start + 5s));
  REQUIRE(p.turns_late(start + 5200ms));
  p.do_without_until_answer(ten_per_second);
  CHECK(p.may_do_without(start + 1h));
  answer_call(p, start + 6s);
  CHECK_FALSE(p.may_do_without(start + 6s));
}

TEST_CASE("what the client knows of the cause begins an outage before the call has ended") {
  sync_plan p = plan_with(failure_mode::closed(), 10s, 5s);
  p.call_begins(start, 0ms);
  CHECK(p.fails(no_answer, "refused", true));
  CHECK_FALSE(p.fails(no_answer, "refused", true));
  CHECK(p.refusal(true) == no_answer);
  CHECK(p.end_of(asked(-1h)) == start + 5s);
  p.call_ended();
  CHECK_FALSE(p.failed(start + 1s, no_answer, "refused", false, ten_per_second));
  CHECK_FALSE(p.refusal(true));
  CHECK(p.is_before_retry(start + 1s) == (p.next_call(new_waiter, start + 1s) > start + 1s));
}

TEST_CASE("a call that there was no memory for is made later") {
  sync_plan p = plan_with(failure_mode::closed());
  p.call_again_at(start + 1ms);
  CHECK(p.next_call(new_waiter, start) == start + 1ms);
  CHECK(p.is_before_retry(start));
  CHECK_FALSE(p.is_before_retry(start + 1ms));
}

}  // namespace sync_plan_test
