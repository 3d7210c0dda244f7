// The windows of a calendar, over changes of the clocks, the ends of months, and leap years.

#include "gateway/config/calendar.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace gateway = canigo::gateway;
using namespace std::chrono;
using namespace std::chrono_literals;
using gateway::calendar_unit;

namespace {

sys_seconds utc(int y, unsigned m, unsigned d, int h = 0, int min = 0, int s = 0) {
  return sys_days{year{y} / month{m} / day{d}} + hours{h} + minutes{min} + seconds{s};
}

void check_window(calendar_unit u, const std::string& zone, sys_seconds begin, sys_seconds end) {
  CAPTURE(gateway::name_of(u), zone, begin.time_since_epoch().count());
  const gateway::calendar_window w{begin, end};
  for (const sys_seconds at : {begin, begin + (end - begin) / 2, end - 1s}) CHECK(gateway::window_of(u, zone, at) == w);
  CHECK(gateway::window_of(u, zone, begin - 1s).end == begin);
  CHECK(gateway::window_of(u, zone, end).begin == end);
}

}  // namespace

TEST_CASE("gateway: in UTC a window is an hour, a day, a week from Monday or a month", "[gateway][calendar]") {
  check_window(calendar_unit::hour, "UTC", utc(2026, 11, 29, 18), utc(2026, 11, 29, 19));
  check_window(calendar_unit::day, "UTC", utc(2026, 11, 29), utc(2026, 11, 30));
  check_window(calendar_unit::week, "UTC", utc(2026, 11, 23), utc(2026, 11, 30));  // the 29th is a Sunday
  check_window(calendar_unit::week, "UTC", utc(2026, 11, 30), utc(2026, 12, 7));
  check_window(calendar_unit::month, "UTC", utc(2026, 11, 1), utc(2026, 12, 1));
  check_window(calendar_unit::month, "UTC", utc(2026, 12, 1), utc(2027, 1, 1));
  check_window(calendar_unit::month, "UTC", utc(2028, 2, 1), utc(2028, 3, 1));
  CHECK(gateway::window_of(calendar_unit::day, "UTC", utc(2028, 2, 29, 12)).end == utc(2028, 3, 1));
  CHECK(utc(2028, 3, 1) - utc(2028, 2, 1) == 29 * 24h);
  CHECK(gateway::window_of(calendar_unit::day, "UTC", utc(2027, 2, 28, 12)).end == utc(2027, 3, 1));
}

TEST_CASE("gateway: a day in which the clocks change has 23 or 25 hours", "[gateway][calendar]") {
  // Paris: +1 h, and +2 h from 29 March to 25 October 2026.
  check_window(calendar_unit::day, "Europe/Paris", utc(2026, 3, 27, 23), utc(2026, 3, 28, 23));
  check_window(calendar_unit::day, "Europe/Paris", utc(2026, 3, 28, 23), utc(2026, 3, 29, 22));    // 23 h
  check_window(calendar_unit::day, "Europe/Paris", utc(2026, 10, 24, 22), utc(2026, 10, 25, 23));  // 25 h
  check_window(calendar_unit::day, "Europe/Paris", utc(2026, 10, 25, 23), utc(2026, 10, 26, 23));
  check_window(calendar_unit::week, "Europe/Paris", utc(2026, 3, 22, 23), utc(2026, 3, 29, 22));
  check_window(calendar_unit::month, "Europe/Paris", utc(2026, 9, 30, 22), utc(2026, 10, 31, 23));
  // New York: -5 h, and -4 h from 8 March to 1 November 2026.
  check_window(calendar_unit::day, "America/New_York", utc(2026, 3, 8, 5), utc(2026, 3, 9, 4));    // 23 h
  check_window(calendar_unit::day, "America/New_York", utc(2026, 11, 1, 4), utc(2026, 11, 2, 5));  // 25 h
  check_window(calendar_unit::week, "America/New_York", utc(2026, 10, 26, 4), utc(2026, 11, 2, 5));
  check_window(calendar_unit::month, "America/New_York", utc(2026, 3, 1, 5), utc(2026, 4, 1, 4));
}

TEST_CASE("gateway: an hour that the clocks show twice is two windows", "[gateway][calendar]") {
  check_window(calendar_unit::hour, "Europe/Paris", utc(2026, 10, 25, 0), utc(2026, 10, 25, 1));
  check_window(calendar_unit::hour, "Europe/Paris", utc(2026, 10, 25, 1), utc(2026, 10, 25, 2));
  check_window(calendar_unit::hour, "Europe/Paris", utc(2026, 3, 29, 1), utc(2026, 3, 29, 2));
  // India's hours begin half an hour later.
  check_window(calendar_unit::hour, "Asia/Kolkata", utc(2026, 11, 29, 18, 30), utc(2026, 11, 29, 19, 30));
  // Lord Howe goes back by half an hour, from 2:00 to 1:30.
  check_window(calendar_unit::hour, "Australia/Lord_Howe", utc(2026, 4, 4, 14), utc(2026, 4, 4, 15));
  check_window(calendar_unit::hour, "Australia/Lord_Howe", utc(2026, 4, 4, 15), utc(2026, 4, 4, 15, 30));
}

TEST_CASE("gateway: a midnight that comes twice, or never, begins one day", "[gateway][calendar]") {
  // Havana went back from 1:00 to 0:00, and skipped 0:00 in spring. (Newer tables of zones have no such step in 2026.)
  check_window(calendar_unit::day, "America/Havana", utc(2025, 11, 2, 4), utc(2025, 11, 3, 5));
  check_window(calendar_unit::day, "America/Havana", utc(2025, 3, 9, 5), utc(2025, 3, 10, 4));
  // St. John's went back from 0:01 to 23:01 of the day before.
  check_window(calendar_unit::day, "America/St_Johns", utc(2010, 11, 7, 2, 30), utc(2010, 11, 8, 3, 30));
  CHECK(gateway::window_of(calendar_unit::day, "America/St_Johns", utc(2010, 11, 7, 3)).begin ==
        utc(2010, 11, 7, 2, 30));
  // Apia had no 30 December 2011.
  check_window(calendar_unit::day, "Pacific/Apia", utc(2011, 12, 29, 10), utc(2011, 12, 30, 10));
  check_window(calendar_unit::day, "Pacific/Apia", utc(2011, 12, 30, 10), utc(2011, 12, 31, 10));
}

TEST_CASE("gateway: the windows of three years follow each other without a gap", "[gateway][calendar]") {
  for (const std::string zone : {"UTC", "Europe/Paris", "America/New_York", "America/Havana", "Australia/Lord_Howe"}) {
    for (const calendar_unit u : {calendar_unit::hour, calendar_unit::day, calendar_unit::week, calendar_unit::month}) {
      CAPTURE(zone, gateway::name_of(u));
      gateway::calendar_window w = gateway::window_of(u, zone, utc(2026, 1, 1));
      std::size_t windows = 0;
      while (w.end < utc(2029, 1, 1)) {
        const gateway::calendar_window next = gateway::window_of(u, zone, w.end);
        const bool follows = next.begin == w.end && next.end > next.begin && w.contains(next.begin - 1s);
        if (!follows) FAIL_CHECK("a gap at " << w.end.time_since_epoch().count());
        w = next;
        ++windows;
      }
      const std::size_t days = 365 + 365 + 366;
      if (u == calendar_unit::day) CHECK(windows + 1 >= days);
      if (u == calendar_unit::month) CHECK(windows + 1 >= 36);
    }
  }
}

TEST_CASE("gateway: a zone is one of the system's, and an instant is told by its clocks", "[gateway][calendar]") {
  CHECK(gateway::is_time_zone("UTC"));
  CHECK(gateway::is_time_zone("Europe/Paris"));
  for (const std::string name : {"", "Europe/Atlantis", "utc ", "../../etc/passwd", "paris"})
    CHECK_FALSE(gateway::is_time_zone(name));
  CHECK(gateway::local_text("UTC", utc(2026, 11, 30)) == "2026-11-30 00:00 UTC");
  CHECK(gateway::local_text("Europe/Paris", utc(2026, 11, 29, 23)) == "2026-11-30 00:00 CET");
}
