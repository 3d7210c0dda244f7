#include "canigo/jobs/schedule.hpp"

#include "../../lib/jobs/time_zone.hpp"
#include "support/catch.hpp"
#include "support/limits_run.hpp"

#include <chrono>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

using namespace canigo;
using namespace canigo::jobs;
using namespace std::chrono_literals;

namespace {

instant at(const std::string& text) {
  int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
  REQUIRE(std::sscanf(text.c_str(), "%d-%d-%d %d:%d:%d", &y, &mo, &d, &h, &mi, &s) >= 5);
  return std::chrono::sys_days{std::chrono::year{y} / mo / d} + std::chrono::hours{h} + std::chrono::minutes{mi} +
         std::chrono::seconds{s};
}

/// The first time after `from`.
std::string next(const schedule& s, const std::string& from) {
  const auto t = s.next_after(at(from));
  const auto day = std::chrono::floor<std::chrono::days>(t);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(t - day)};
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u %02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}
std::string next(const std::string& cron, const std::string& from) { return next(schedule::cron(cron), from); }

/// A field as a set of values, by the words of crontab(5).
struct field {
  std::string text;
  std::set<unsigned> values;
};

field random_field(std::mt19937& random, unsigned least, unsigned most) {
  const auto pick = [&](unsigned first, unsigned last) {
    return first + static_cast<unsigned>(random()) % (last - first + 1);
  };
  field f;
  if (pick(0, 2) == 0) {
    f.text = "*";
    for (unsigned v = least; v <= most; ++v) f.values.insert(v);
    return f;
  }
  for (unsigned parts = pick(1, 3); parts > 0; --parts) {
    const unsigned first = pick(least, most), last = pick(first, most);
    const unsigned step = last > first ? pick(1, last - first) : 1;
    if (!f.text.empty()) f.text += ',';
    f.text += std::to_string(first);
    if (last > first) f.text += "-" + std::to_string(last) + (step > 1 ? "/" + std::to_string(step) : "");
    for (unsigned v = first; v <= last; v += step) f.values.insert(v);
  }
  return f;
}

std::string refused(const std::string& cron) {
  return refusal_of([&] { schedule::cron(cron); });
}

}  // namespace

TEST_CASE("a span is repeated at the same instants in every process", "[jobs]") {
  const auto s = schedule::every(10min);
  CHECK(s.text() == "every 10m");
  CHECK(next(s, "2026-11-24 06:00:00") == "2026-11-24 06:10:00");
  CHECK(next(s, "2026-11-24 06:09:59") == "2026-11-24 06:10:00");
  CHECK(s.next_after(at("2026-11-24 06:10:00") - 1us) == at("2026-11-24 06:10:00"));
  CHECK(next(schedule::every(7s), "1970-01-01 00:00:06") == "1970-01-01 00:00:07");
  CHECK(next(schedule::every(10min), "1969-12-31 23:55:00") == "1970-01-01 00:00:00");
  CHECK(s.next_after(instant::max()) == instant::max());
  for (const duration d :
       {duration{0}, duration{-1h}, duration{1500ms}, duration{1ms}, duration{24h * 367}, duration::max()}) {
    CHECK_THROWS_AS(schedule::every(d), std::system_error);
  }
  CHECK(refusal_of([] { schedule::every(1500ms); }) ==
        "schedule.every is 1500ms; allowed: 1s to 366 days, whole seconds: invalid argument");
}

TEST_CASE("a text of cron names minutes", "[jobs]") {
  CHECK(schedule::cron("30 6 * * mon-fri").text() == "30 6 * * mon-fri");
  CHECK(next("* * * * *", "2026-11-24 06:00:00") == "2026-11-24 06:01:00");
  CHECK(next("* * * * *", "2026-11-24 06:00:59") == "2026-11-24 06:01:00");
  CHECK(next("*/1 * * * *", "2026-11-24 06:45:00") == "2026-11-24 06:46:00");
  CHECK(next("*/15 * * * *", "2026-11-24 06:45:00") == "2026-11-24 07:00:00");
  CHECK(next("5-20/5,59 * * * *", "2026-11-24 06:20:00") == "2026-11-24 06:59:00");
  CHECK(next("\t 30  6 * * *", "2026-11-24 06:30:00") == "2026-11-25 06:30:00");
  // A Friday.
  CHECK(next("30 6 * * mon-fri", "2026-11-27 06:30:00") == "2026-11-30 06:30:00");
  CHECK(next("0 0 * * 7", "2026-11-24 00:00:00") == "2026-11-29 00:00:00");
  CHECK(next("0 0 * * SUN", "2026-11-24 00:00:00") == "2026-11-29 00:00:00");
  CHECK(next("0 0 * * 5-7", "2026-11-28 00:00:00") == "2026-11-29 00:00:00");
  CHECK(next("0 0 1 jan,jul *", "2026-11-24 00:00:00") == "2027-01-01 00:00:00");
  CHECK(next("59 23 31 12 *", "2026-12-31 23:59:00") == "2027-12-31 23:59:00");
  CHECK(next("0 0 31 * *", "2026-11-24 00:00:00") == "2026-12-31 00:00:00");
  CHECK(next("0 0 29 2 *", "2096-03-01 00:00:00") == "2104-02-29 00:00:00");
}

TEST_CASE("each name of cron is a number, in small and in large letters", "[jobs]") {
  const std::string from = "2026-11-24 00:00:00";
  const std::vector<std::string> months{"jan", "FEB", "mar", "APR", "May", "jun",
                                        "JUL", "AUG", "sep", "OCT", "nOV", "deC"};
  for (std::size_t i = 0; i < months.size(); ++i) {
    CHECK(next("0 0 1 " + months[i] + " *", from) == next("0 0 1 " + std::to_string(i + 1) + " *", from));
  }
  const std::vector<std::string> days{"SUN", "mon", "TUE", "wed", "THU", "fri", "SAT"};
  for (std::size_t i = 0; i < days.size(); ++i) {
    CHECK(next("0 0 * * " + days[i], from) == next("0 0 * * " + std::to_string(i), from));
  }
}

TEST_CASE("the last time of a schedule is in the year 9999", "[jobs]") {
  CHECK(next("0 12 * * *", "9999-12-30 12:00:00") == "9999-12-31 12:00:00");
  for (const schedule& s : {schedule::cron("0 12 * * *"), schedule::every(12h), schedule::every(24h * 366)}) {
    CAPTURE(s.text());
    CHECK(s.next_after(at("9999-12-31 12:00:00")) == instant::max());
  }
  CHECK(schedule::every(12h).next_after(at("9999-12-31 11:59:59")) == at("9999-12-31 12:00:00"));
}

TEST_CASE("a day has to match one of two fields, or both if one begins with a star", "[jobs]") {
  // The 13th, and each Friday.
  CHECK(next("0 0 13 * fri", "2026-11-24 00:00:00") == "2026-11-27 00:00:00");
  CHECK(next("0 0 13 * fri", "2026-12-11 00:00:00") == "2026-12-13 00:00:00");
  // Odd days that are a Friday.
  CHECK(next("0 0 */2 * fri", "2026-11-24 00:00:00") == "2026-11-27 00:00:00");
  CHECK(next("0 0 */2 * fri", "2026-11-27 00:00:00") == "2026-12-11 00:00:00");
}

TEST_CASE("a text of cron that names no time is refused", "[jobs]") {
  CHECK(refused("60 * * * *") ==
        "schedule.cron: minute is 60; allowed: 0 to 59; *, lists, ranges, and steps of ranges, shorter than these: "
        "invalid argument");
  CHECK(refused("0 0 30 2 *") == "schedule.cron is 0 0 30 2 *; allowed: a day that comes: invalid argument");
  CHECK(refused("0 0 * *") ==
        "schedule.cron is 0 0 * *; allowed: five fields: minute, hour, day of the month, "
        "month, day of the week: invalid argument");
  for (const char* text : {"",
                           " ",
                           "* * * * * *",
                           "@reboot",
                           "@every 1h",
                           "@Daily",
                           "@daily *",
                           "*/0 * * * *",
                           "*/60 * * * *",
                           "5/2 * * * *",
                           "1-0 * * * *",
                           "1- * * * *",
                           "-1 * * * *",
                           "+1 * * * *",
                           "1,,2 * * * *",
                           ",1 * * * *",
                           "1, * * * *",
                           "* 24 * * *",
                           "* * 0 * *",
                           "* * 32 * *",
                           "* * * 0 *",
                           "* * * 13 *",
                           "* * * * 8",
                           "* * * monday *",
                           "* * * * mo",
                           "*-5 * * * *",
                           "** * * * *",
                           "1-2-3 * * * *",
                           "*/1/2 * * * *",
                           "18446744073709551616 * * * *",
                           "0x1 * * * *",
                           "* * 31 2,4,6,9,11 *"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(schedule::cron(text), std::system_error);
  }
  CHECK_THROWS_AS(schedule::cron("0 0 1 1 " + std::string(300, '0')), std::system_error);
}

TEST_CASE("a word stands for fields", "[jobs]") {
  const std::string from = "2026-11-24 06:30:00";  // a Tuesday
  CHECK(next("@hourly", from) == "2026-11-24 07:00:00");
  CHECK(next(" @daily ", from) == "2026-11-25 00:00:00");
  CHECK(next("@midnight", from) == "2026-11-25 00:00:00");
  CHECK(next("@weekly", from) == "2026-11-29 00:00:00");
  CHECK(next("@monthly", from) == "2026-12-01 00:00:00");
  CHECK(next("@yearly", from) == "2027-01-01 00:00:00");
  CHECK(next("@annually", from) == "2027-01-01 00:00:00");
  CHECK(refused("@reboot") ==
        "schedule.cron is @reboot; allowed: @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; a span "
        "is schedule::every(): invalid argument");
}

TEST_CASE("a schedule in a time zone comes at local times", "[jobs]") {
  const auto in_berlin = [](const std::string& cron, const std::string& from) {
    return next(schedule::cron(cron, "Europe/Berlin"), from);
  };
  CHECK(in_berlin("30 6 * * *", "2026-11-24 05:29:59") == "2026-11-24 05:30:00");
  CHECK(in_berlin("30 6 * * *", "2026-11-24 05:30:00") == "2026-11-25 05:30:00");
  CHECK(in_berlin("30 6 * * *", "2026-07-24 00:00:00") == "2026-07-24 04:30:00");
  CHECK(in_berlin("@daily", "2026-07-24 00:00:00") == "2026-07-24 22:00:00");
  CHECK(in_berlin("0 0 1 1 *", "2026-07-24 00:00:00") == "2026-12-31 23:00:00");
  CHECK(in_berlin("0 12 29 2 *", "2096-03-01 00:00:00") == "2104-02-29 11:00:00");
  CHECK(next("CRON_TZ=Europe/Berlin 30 6 * * *", "2026-11-24 05:29:59") == "2026-11-24 05:30:00");
  CHECK(next("TZ=Asia/Kolkata @daily", "2026-11-24 00:00:00") == "2026-11-24 18:30:00");
  CHECK(next("CRON_TZ=UTC @daily", "2026-11-24 00:00:00") == "2026-11-25 00:00:00");
  CHECK(schedule::cron("@daily", "Europe/Berlin").text() == "CRON_TZ=Europe/Berlin @daily");
  CHECK(schedule::cron("TZ=Europe/Berlin  @daily").text() == "CRON_TZ=Europe/Berlin @daily");
  CHECK(in_berlin("@daily", "9999-12-31 12:00:00") == "9999-12-31 23:00:00");
  CHECK(schedule::cron("@daily", "Europe/Berlin").next_after(at("9999-12-31 23:00:00")) == instant::max());
  for (const char* text : {"CRON_TZ= @daily", "CRON_TZ=Mars/Base @daily", "CRON_TZ=Europe/Berlin",
                           "TZ=UTC TZ=UTC @daily", "CRON_TZ=../zoneinfo/UTC @daily"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(schedule::cron(text), std::system_error);
  }
}

TEST_CASE("a time that is skipped comes when the clocks are put forward, and one that comes twice comes once",
          "[jobs]") {
  const auto from = [](const std::string& cron, const std::string& begin, int times,
                       const char* zone = "Europe/Berlin") {
    const auto s = schedule::cron(cron, zone);
    std::string all, t = begin;
    for (int i = 0; i < times; ++i) all += (all.empty() ? "" : " ") + (t = next(s, t)).substr(8, 8);
    return all;
  };
  // On 29 March 2026, 02:00 is 03:00: 01:00 in UTC.
  CHECK(from("30 2 * * *", "2026-03-28 00:00:00", 3) == "28 01:30 29 01:00 30 00:30");
  CHECK(from("0,30 2 * * *", "2026-03-29 00:00:00", 2) == "29 01:00 30 00:00");
  CHECK(from("0 2,3 * * *", "2026-03-29 00:00:00", 2) == "29 01:00 30 00:00");
  CHECK(from("59 1 * * *", "2026-03-29 00:00:00", 2) == "29 00:59 29 23:59");
  CHECK(next(schedule::cron("30 2 29 3 *", "Europe/Berlin"), "2026-01-01 00:00:00") == "2026-03-29 01:00:00");
  // What follows the clock does not make up for it.
  CHECK(from("*/30 * * * *", "2026-03-29 00:20:00", 3) == "29 00:30 29 01:00 29 01:30");
  CHECK(from("30 * * * *", "2026-03-29 00:20:00", 3) == "29 00:30 29 01:30 29 02:30");
  CHECK(from("*/30 2 * * *", "2026-03-29 00:00:00", 2) == "30 00:00 30 00:30");

  // On 25 October 2026, 03:00 is 02:00: 01:00 in UTC.
  CHECK(from("30 2 * * *", "2026-10-24 12:00:00", 2) == "25 00:30 26 01:30");
  CHECK(from("0 2 * * *", "2026-10-24 12:00:00", 2) == "25 00:00 26 01:00");
  CHECK(from("0 3 * * *", "2026-10-24 12:00:00", 2) == "25 02:00 26 02:00");
  CHECK(from("0,30 1-3 * * *", "2026-10-24 22:00:00", 7) ==
        "24 23:00 24 23:30 25 00:00 25 00:30 25 02:00 25 02:30 26 00:00");
  CHECK(from("30 * * * *", "2026-10-25 00:00:00", 3) == "25 00:30 25 01:30 25 02:30");
  CHECK(from("*/30 2 * * *", "2026-10-25 00:00:00", 4) == "25 00:30 25 01:00 25 01:30 26 01:00");
  // In between nothing comes again, from whatever instant it is asked.
  CHECK(from("30 2 * * *", "2026-10-25 01:00:00", 1) == "26 01:30");
  CHECK(from("30 2 * * *", "2026-10-25 01:29:59", 1) == "26 01:30");

  // Half an hour, on the other half of the earth; and a day that an island left out.
  CHECK(from("15 2 * * *", "2026-10-03 12:00:00", 2, "Australia/Lord_Howe") == "03 15:30 04 15:15");
  CHECK(from("45 1 * * *", "2026-04-04 00:00:00", 2, "Australia/Lord_Howe") == "04 14:45 05 15:15");
  CHECK(from("0 6 * * *", "2011-12-29 00:00:00", 3, "Pacific/Apia") == "29 16:00 30 10:00 30 16:00");
}

TEST_CASE("any time of a schedule in a zone is one that its fields name, or was skipped", "[jobs]") {
  for (const char* zone : {"Europe/Berlin", "America/New_York", "Africa/Casablanca", "Australia/Lord_Howe",
                           "Asia/Tokyo", "America/St_Johns", "Pacific/Chatham"}) {
    CAPTURE(zone);
    const auto tz = canigo::jobs::detail::time_zone::of(zone);
    // A schedule in UTC that is asked for local times is another way to the same.
    for (const char* text : {"0 2 * * *", "30 1 * * *", "*/20 * * * *", "15 */3 * * *", "0,45 0-4 * * sun"}) {
      CAPTURE(text);
      const auto in_zone = schedule::cron(text, zone);
      const auto plain = schedule::cron(text);
      instant t = at("2026-01-01 00:00:00");
      std::size_t skipped = 0;
      for (int i = 0; i < 2000 && t < at("2029-01-01 00:00:00"); ++i) {
        const instant n = in_zone.next_after(t);
        CHECK(n > t);
        const auto p = tz.at(std::chrono::floor<std::chrono::seconds>(n));
        const instant local = n + p.offset;
        if (plain.next_after(local - 1us) != local) {
          CHECK(instant{p.begin} == n);
          ++skipped;
        }
        t = n;
      }
      CHECK(skipped <= 6);
    }
  }
}

TEST_CASE("any text of cron means what a search through all minutes finds", "[jobs]") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    std::mt19937 random{seed};
    const field minutes = random_field(random, 0, 59), hours = random_field(random, 0, 23);
    const field days = random_field(random, 1, 31), months = random_field(random, 1, 12);
    const field weekdays = random_field(random, 0, 7);
    const std::string text =
        minutes.text + " " + hours.text + " " + days.text + " " + months.text + " " + weekdays.text;
    CAPTURE(text);
    std::optional<schedule> s;
    try {
      s = schedule::cron(text);
    } catch (const std::system_error&) {
      continue;  // no day of February, say
    }
    const instant from = at("2026-11-24 06:00:00") + std::chrono::minutes{random() % 600'000};
    instant expected = instant::max();
    for (auto t = std::chrono::floor<std::chrono::minutes>(from) + 1min; t < from + 24h * 800; t += 1min) {
      const auto day = std::chrono::floor<std::chrono::days>(t);
      const std::chrono::year_month_day date{day};
      const std::chrono::hh_mm_ss time{t - day};
      const unsigned weekday = std::chrono::weekday{day}.c_encoding();
      const bool is_day = days.values.contains(static_cast<unsigned>(date.day()));
      const bool is_weekday = weekdays.values.contains(weekday) || (weekday == 0 && weekdays.values.contains(7));
      const bool is_either = days.text[0] != '*' && weekdays.text[0] != '*';
      if (minutes.values.contains(static_cast<unsigned>(time.minutes().count())) &&
          hours.values.contains(static_cast<unsigned>(time.hours().count())) &&
          months.values.contains(static_cast<unsigned>(date.month())) &&
          (is_either ? is_day || is_weekday : is_day && is_weekday)) {
        expected = t;
        break;
      }
    }
    if (expected != instant::max()) CHECK(s->next_after(from) == expected);
  }
}
