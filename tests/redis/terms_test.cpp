// The settings of a limit, and what Redis is told of changes.
#include "../lib/redis/terms.hpp"

#include "canigo/detail/queue/units.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace terms_test {

using namespace std::chrono_literals;
using canigo::duration;
using canigo::rate;
using canigo::time_point;
using canigo::redis::detail::limit_settings;
using canigo::redis::detail::setting;
using canigo::redis::detail::sync_call;
using canigo::redis::detail::terms;

constexpr time_point start{1h};
constexpr time_point later = start + 10s;

sync_call told(const terms& t, time_point now = start) {
  sync_call s;
  t.write(s, now);
  return s;
}

TEST_CASE("a rate is told in microseconds") {
  const terms whole{0, {{rate{10, 1s}, 5}}};
  CHECK(whole.settings().rates[0].tokens == 1);
  CHECK(whole.settings().rates[0].period == 100'000);
  CHECK(whole.most() == 5);
  const terms odd{0, {{rate{3, 1000ns * 1000 + 500ns}}}};
  CHECK(odd.settings().rates[0].tokens * 1'000'500 == odd.settings().rates[0].period * 3000);
  const terms places{7, {}};
  CHECK(places.most() == 7);
  CHECK(places.settings().rates[0].tokens == 0);
  CHECK_THROWS((terms{0, {{rate{1, 365 * 24h}, std::uint64_t{1} << 31}}}));
}

TEST_CASE("a change is told until a call that says so was answered") {
  terms t{3, {}};
  CHECK_FALSE(t.has_untold());
  t.set_permits(5, later);
  CHECK(t.has_untold());
  CHECK(told(t).changes == setting::permits());
  CHECK(told(t).settings.permits == 5);
  t.call_begins();
  CHECK_FALSE(t.has_untold());
  t.tell_again();  // it has failed
  CHECK(told(t).changes == setting::permits());
  t.call_begins();
  t.told();
  t.tell_again();
  CHECK_FALSE(t.has_untold());
}

TEST_CASE("what all agree on is taken over, except for what was changed here meanwhile") {
  terms t{0, {{rate::per_second(10), 4}}};
  t.set_burst(0, 9, later);
  const limit_settings all{.version = 2, .rates = {{{7, 1'000'000, 6}}}, .rate_count = 1, .pause = -1};
  t.adopt(all, start);
  CHECK(t.settings().version == 2);
  CHECK(t.settings().rates[0].tokens == 7);
  CHECK(t.settings().rates[0].burst == 9);
  CHECK(t.paused_until() == time_point::max());
  CHECK(told(t).settings.pause == -1);
  t.call_begins();
  t.set_rate(0, rate::per_second(20), later);
  t.pause_until(start + 1500us, start, later);
  t.adopt(all, start);
  CHECK(t.settings().rates[0].tokens == 1);
  CHECK(t.settings().rates[0].period == 50'000);
  CHECK(t.settings().rates[0].burst == 6);
  CHECK(told(t).changes == (setting::rate_of(0) | setting::pause()));
  CHECK(told(t).settings.pause == 1500);
  CHECK(told(t, start + 1ns).settings.pause == 1500);
  CHECK(told(t, start + 2ms).settings.pause == 0);
  t.pause_until(start, start, later);
  CHECK(t.paused_until() == time_point::min());
  t.call_begins();
  t.told();
  t.adopt({.version = 3, .rates = {{{7, 1, 1}}}, .rate_count = 1, .pause = 2000}, start);
  CHECK(t.paused_until() == start + 2ms);
}

TEST_CASE("a burst has bounds, and a refused one changes nothing") {
  terms t{0, {{rate::per_second(10), 4}}};
  CHECK_THROWS(t.set_burst(0, 0, later));
  CHECK_THROWS(t.set_burst(0, (std::uint64_t{1} << 31) + 1, later));
  CHECK_FALSE(t.has_untold());
  CHECK(t.settings().rates[0].burst == 4);
  CHECK(t.settings().rates[0].period == 100'000);
}

TEST_CASE("charges are told as a total, which counts once however often it is told") {
  terms t{0, {{rate::per_second(10), 4}}};
  t.charge(0, 3, later);
  t.call_begins();
  t.charge(0, -1, later);  // while the call is under way
  CHECK(told(t).charged[0].before == 0);
  CHECK(told(t).charged[0].now == 2);
  t.charged();
  CHECK(t.has_untold());
  CHECK(told(t).charged[0].before == 3);
  CHECK(told(t).charged[0].now == 2);
  t.call_begins();
  t.charged();
  CHECK_FALSE(t.has_untold());
}

TEST_CASE("in an outage no call is made for a change whose time is over, and charges go with the next one") {
  terms t{0, {{rate::per_second(10), 4}}};
  t.set_burst(0, 5, later);
  t.charge(0, 3, later);
  t.forget_overdue(later - 1ns);
  CHECK(t.has_untold());
  t.forget_overdue(later);
  CHECK_FALSE(t.has_untold());
  CHECK(told(t).changes.is_empty());
  CHECK(told(t).charged[0].before == 0);
  CHECK(told(t).charged[0].now == 3);       // a call that was lost may have told it
  CHECK(t.settings().rates[0].burst == 5);  // it counts here
  t.charge(0, 1, later + 10s);
  CHECK(t.has_untold());
  t.call_begins();
  t.charged();
  CHECK_FALSE(t.has_untold());
}

TEST_CASE("each change has its own time until which it is told, the last one counts") {
  const auto changes = {
      +[](terms& t, time_point until) { t.set_rate(0, rate::per_second(7), until); },
      +[](terms& t, time_point until) { t.set_burst(0, 7, until); },
      +[](terms& t, time_point until) { t.set_permits(7, until); },
      +[](terms& t, time_point until) { t.pause_until(start + 7s, start, until); },
      +[](terms& t, time_point until) { t.charge(0, 7, until); },
  };
  for (const auto change : changes) {
    terms t{3, {{rate::per_second(10), 4}}};
    change(t, start);
    change(t, later);
    t.forget_overdue(later - 1ns);
    CHECK(t.has_untold());
    t.forget_overdue(later);
    CHECK_FALSE(t.has_untold());
  }
}

TEST_CASE("after a loss of data nothing is granted before the quarantine is over") {
  terms t{3, {}};
  CHECK(t.opens_at(start) == start);
  t.heard(start, 5s, {0s});
  CHECK(t.opens_at(start + 1s) == start + 5s);
  CHECK(t.opens_at(start + 6s) == start + 6s);
  t.pause_until(start + 9s, start, later);
  CHECK(t.opens_at(start) == start + 9s);
}

TEST_CASE("the time for tokens is counted from when the bucket was empty, for as many as fit") {
  terms t{0, {{rate::per_second(10), 4}}};
  CHECK(t.time_until({1}, start) == 0s);  // nothing is known of it
  t.heard(start, 0s, {-100ms});
  CHECK(t.time_until({1}, start) == 0s);
  CHECK(t.time_until({3}, start) == 200ms);
  CHECK(t.time_until({4}, start + 1h) == 0s);
  CHECK(t.time_until({6}, start + 1h) == 200ms);
  t.heard(start, 0s, {1s});
  CHECK(t.time_until({1}, start) == 1100ms);
}

TEST_CASE("limits with other units, in another order, or without the cap have another number") {
  const auto shape = [](std::vector<std::string> units, std::uint64_t permits = 0) {
    std::vector<canigo::rate_limit> rates(units.size(), {.rate = rate::per_second(10), .burst = 5});
    return told(terms{permits, rates, std::make_shared<const canigo::detail::unit_table>(units, "rates")}).shape;
  };
  const std::set<std::uint64_t> all{
      shape({"ab", "c"}),     shape({"a", "bc"}),     shape({"c", "ab"}), shape({"ab", "c", ""}), shape({"abc"}),
      shape({"ab", "c"}, 1),  shape({"", "ab", "c"}), shape({"a", "a"}),  shape({"a"}),           shape({"aa"}),
      shape({"a", "b", "a"}), shape({"a", "a", "b"}), shape({"a"}, 7),
  };
  CHECK(all.size() == 13);
  CHECK_FALSE(all.contains(0));
  CHECK(shape({"a", "b"}, 3) == shape({"a", "b"}, 4));
}

}  // namespace terms_test
