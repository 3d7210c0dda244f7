#include "../../lib/jobs/zone_rule.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

using namespace canigo::jobs::detail;
using namespace std::chrono_literals;
using std::chrono::sys_days;
using std::chrono::year;

namespace {

constexpr year y2026{2026};

}  // namespace

TEST_CASE("a rule names the changes of a year", "[jobs]") {
  const auto berlin = zone_rule::read("CET-1CEST,M3.5.0,M10.5.0/3");
  REQUIRE(berlin);
  CHECK(berlin->standard() == 1h);
  auto changes = berlin->changes_of(y2026);
  REQUIRE(changes.size() == 2);
  CHECK((changes[0].at == sys_days{y2026 / 3 / 29} + 1h && changes[0].offset == 2h));
  CHECK((changes[1].at == sys_days{y2026 / 10 / 25} + 1h && changes[1].offset == 1h));

  // Ireland's winter is an exception from its summer, and Lord Howe goes half an hour back.
  changes = zone_rule::read("IST-1GMT0,M10.5.0,M3.5.0/1")->changes_of(y2026);
  CHECK((changes[0].at == sys_days{y2026 / 10 / 25} + 1h && changes[0].offset == 0h));
  changes = zone_rule::read("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0")->changes_of(y2026);
  CHECK((changes[0].at == sys_days{y2026 / 10 / 3} + 15h + 30min && changes[0].offset == 11h));
  CHECK((changes[1].at == sys_days{y2026 / 4 / 4} + 15h && changes[1].offset == 10h + 30min));
  // Days by number, with and without the 29th of February, and hours before and beyond the day.
  changes = zone_rule::read("AAA1:02:03BBB,J60/-1,59/167:59:59")->changes_of(year{2024});
  CHECK(changes[0].at == sys_days{year{2024} / 3 / 1} - 1h + 1h + 2min + 3s);
  CHECK(changes[1].at == sys_days{year{2024} / 2 / 29} + 167h + 59min + 59s + 2min + 3s);
  CHECK(changes[0].offset == -2min - 3s);

  const auto tokyo = zone_rule::read("JST-9");
  REQUIRE(tokyo);
  CHECK(tokyo->standard() == 9h);
  CHECK_FALSE(tokyo->has_summer());
  CHECK(tokyo->changes_of(y2026).empty());
}

TEST_CASE("a text that is no rule is none", "[jobs]") {
  const std::string good = "CET-1CEST,M3.5.0,M10.5.0/3";
  for (std::size_t size = 0; size < good.size(); ++size) {
    // What is left out at the end may leave a rule.
    const std::string part = good.substr(0, size);
    if (part == "CET-1" || part == "CET-1CEST,M3.5.0,M10.5.0") continue;
    CAPTURE(part);
    CHECK_FALSE(zone_rule::read(part));
  }
  for (const char* text :
       {"CE-1", "CET", "CET-168", "CET-1:60", "CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.0.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0", "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,J0,J365",
        "CET-1CEST,J1,J366", "CET-1CEST,0,366", "CET-1CEST,M3.5.0", "<CET-1", "CET-1CEST,M3.5.0,M10.5.0/3x",
        "CET-99999999999", "CET--1", " CET-1"}) {
    CAPTURE(text);
    CHECK_FALSE(zone_rule::read(text));
  }
}
