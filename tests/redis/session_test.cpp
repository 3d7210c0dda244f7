// The lease of a process in Redis, and its clocks.
#include "../lib/redis/session.hpp"

#include "canigo/time.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace session_test {

using namespace std::chrono_literals;
using canigo::duration;
using canigo::redis::detail::session;

constexpr std::int64_t boot = 5'000'000'000;

/// A clock that goes on while the machine sleeps.
std::int64_t after(duration d) { return boot + d.count(); }

session registered(duration lease = 10s) {
  session s{"p:", lease, true};
  s.call_begins(after(0s), false);
  s.answered(after(0s), 1'000'000);
  return s;
}

TEST_CASE("a session is unknown until a call of it was answered") {
  session s{"p:", 10s, true};
  CHECK(s.name() == "p:1");
  CHECK(s.number() == 1);
  CHECK(s.name_of(7) == "p:7");
  CHECK_FALSE(s.has_call());
  CHECK(s.next_call() == 1);
  s.call_begins(after(0s), false);
  CHECK(s.has_call());
  CHECK(s.next_call() == 2);
  CHECK_FALSE(s.is_registered());
  CHECK_FALSE(s.lasts(after(0s)));
  CHECK_FALSE(s.is_lost(after(1h)));  // it has nothing to lose
  s.answered(after(1s), 1);
  CHECK(s.is_registered());
  CHECK(s.lasts(after(1s)));
}

TEST_CASE("a lease counts from when the answered call was sent, and ends a tenth before it ends in Redis") {
  session s{"p:", 10s, true};
  s.call_begins(after(0s), false);
  s.sent(after(2s));  // it has waited for a connection
  s.answered(after(3s), 1);
  CHECK(s.left(after(3s)) == 8s);
  CHECK(s.renew_in(after(3s)) == duration{10s} / 3 - 1s);
  CHECK(s.lasts(after(11s) - 1));
  CHECK_FALSE(s.is_lost(after(11s) - 1));
  CHECK_FALSE(s.lasts(after(11s)));
  CHECK(s.is_lost(after(11s)));
  // A call that is not answered renews nothing.
  s.call_begins(after(5s), false);
  CHECK(s.is_lost(after(11s)));
  s.answered(after(6s), 1);
  CHECK_FALSE(s.is_lost(after(11s)));
}

TEST_CASE("an answer to a session that has ended is none of the next one") {
  session s = registered();
  s.call_begins(after(1s), false);
  s.begin();
  CHECK(s.name() == "p:2");
  CHECK_FALSE(s.has_call());
  CHECK_FALSE(s.is_registered());
  CHECK(s.next_call() == 1);
  s.call_begins(after(2s), false);
  CHECK(s.has_call());
}

TEST_CASE("a call that was not run is made with the same number") {
  session s = registered();
  const auto number = s.next_call();
  s.call_begins(after(1s), false);
  s.was_not_run();
  CHECK(s.next_call() == number);
}

TEST_CASE("a session that leaves is known no more once that is answered") {
  session s = registered();
  s.call_begins(after(1s), true);
  CHECK(s.is_registered());
  s.answered(after(1s), 1);
  CHECK_FALSE(s.is_registered());
}

TEST_CASE("a round trip of half the usable lease is too slow") {
  struct {
    bool has_permits;
    duration took;
    duration too_slow;
  } const cases[]{{true, 4500ms, 0ms}, {true, 4501ms, 4501ms}, {false, 4501ms, 0ms}};
  for (const auto& c : cases) {
    session s{"p:", 10s, c.has_permits};
    s.call_begins(after(0s), false);
    s.answered(after(c.took), 1);
    CHECK(s.too_slow() == c.too_slow);
    s.call_begins(after(10s), false);
    s.answered(after(10s), 1);
    CHECK(s.too_slow() == 0ms);
  }
}

TEST_CASE("the time in Redis is known at most, and not for long after an answer") {
  session s{"p:", 10s, true};
  CHECK(s.latest_there(after(0s)) == 0);
  s.call_begins(after(0s), false);
  s.answered(after(1s), 7'000'000);
  CHECK(s.latest_there(after(0s)) == 7'000'000);
  CHECK(s.latest_there(after(2s)) == 9'002'000);  // a thousandth for the drift of two clocks
  CHECK(s.latest_there(after(312s)) != 0);
  CHECK(s.latest_there(after(313s)) == 0);  // the drift is more than a share of the lease
  CHECK(s.latest_there(after(-1s)) == 0);
}

TEST_CASE("another epoch means that Redis has lost data") {
  session s = registered();
  CHECK_FALSE(s.follow(3));  // the first
  CHECK(s.epoch() == 3);
  CHECK_FALSE(s.follow(3));
  CHECK(s.follow(2));
  CHECK(s.epoch() == 2);
  CHECK(s.follow(4));
}

TEST_CASE("the greatest token is remembered, whatever order they come in, and by the next session") {
  session s = registered();
  s.see(5);
  s.see(3);
  CHECK(s.last_token() == 5);
  s.begin();
  CHECK(s.last_token() == 5);
}

}  // namespace session_test
