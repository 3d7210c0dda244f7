#include "gateway/policy/quota_resets.hpp"

#include "support/catch.hpp"

#include <chrono>

using namespace std::chrono;
using canigo::gateway::next_reset;
using canigo::gateway::quota_reset;

namespace {

sys_seconds at(int y, unsigned m, unsigned d, int h, int min = 0, int s = 0) {
  return sys_days{year{y} / month{m} / day{d}} + hours{h} + minutes{min} + seconds{s};
}

}  // namespace

TEST_CASE("gateway: a day ends at midnight in Pacific time, in summer and in winter", "[gateway][quota]") {
  struct row {
    sys_seconds now, reset;
  };
  // After date(1) with TZ=America/Los_Angeles.
  const row rows[] = {
      {at(2026, 11, 29, 11), at(2026, 11, 30, 8)},         // 3:00 of the same day
      {at(2026, 11, 29, 7, 59, 59), at(2026, 11, 29, 8)},  // the last second of the 28th
      {at(2026, 11, 29, 8), at(2026, 11, 30, 8)},          // midnight itself
      {at(2026, 7, 1, 0), at(2026, 7, 1, 7)},              // 17:00 of the day before
      {at(2026, 7, 1, 7), at(2026, 7, 2, 7)},              //
      {at(2026, 12, 31, 20), at(2027, 1, 1, 8)},           //
      {at(2026, 3, 7, 9), at(2026, 3, 8, 8)},              // the midnight before the clocks change
      {at(2026, 3, 8, 8), at(2026, 3, 9, 7)},              // a day of 23 hours
      {at(2026, 10, 31, 9), at(2026, 11, 1, 7)},           //
      {at(2026, 11, 1, 7), at(2026, 11, 2, 8)},            // a day of 25 hours
      {at(2026, 11, 2, 7, 30), at(2026, 11, 2, 8)},        // its 25th hour
      {at(2028, 2, 29, 12), at(2028, 3, 1, 8)},            //
      {at(2027, 3, 14, 12), at(2027, 3, 15, 7)},           // the earliest and the latest second Sunday
      {at(2032, 3, 8, 8), at(2032, 3, 9, 8)},              //
      {at(2029, 11, 1, 12), at(2029, 11, 2, 7)},           // the first Sunday is the 4th
  };
  for (const row& r : rows) {
    CAPTURE(r.now.time_since_epoch().count());
    CHECK(next_reset(quota_reset::pacific, r.now) == r.reset);
  }
  CHECK(next_reset(quota_reset::pacific, at(2026, 11, 29, 7, 59, 59) + 999ms) == at(2026, 11, 29, 8));
}

TEST_CASE("gateway: a day ends at midnight in UTC", "[gateway][quota]") {
  CHECK(next_reset(quota_reset::utc, at(2026, 11, 29, 0)) == at(2026, 11, 30, 0));
  CHECK(next_reset(quota_reset::utc, at(2026, 12, 31, 23, 59, 59)) == at(2027, 1, 1, 0));
}

TEST_CASE("gateway: a reset that an upstream tells is shown as a time in UTC", "[gateway][quota]") {
  using namespace std::chrono;
  const sys_seconds reset = sys_days{2026y / November / 29} + 19h + 4min + 59s;
  CHECK(text_of_reset(quota_reset::unknown, reset) == "2026-11-29 19:04 UTC");
  CHECK(text_of_reset(quota_reset::pacific, reset) == "00:00 PT");
}
