#include "gateway/policy/quota_resets.hpp"

#include <fmt/format.h>

namespace canigo::gateway {
namespace {

using namespace std::chrono;

/// Returns how much later this day begins in Pacific time than in UTC: 7 hours during daylight saving time, otherwise 8
/// hours. Clocks change at 2:00, so a day with a change still begins with the old difference.
seconds delay_of_pacific(local_days day) noexcept {
  const year y = year_month_day{day}.year();
  const bool is_summer = day > local_days{y / March / Sunday[2]} && day <= local_days{y / November / Sunday[1]};
  return is_summer ? hours{7} : hours{8};
}

}  // namespace

sys_seconds next_reset(quota_reset when, system_clock::time_point now) noexcept {
  const auto instant = floor<seconds>(now);
  if (when == quota_reset::utc) return floor<days>(instant) + days{1};
  // Finds the next midnight in Pacific time. The search begins with the date in UTC, because the date in Pacific time
  // is the same day or the day before.
  for (local_days day{floor<days>(instant).time_since_epoch()};; day += days{1}) {
    const sys_seconds midnight{day.time_since_epoch() + delay_of_pacific(day)};
    if (midnight > instant) return midnight;
  }
}

std::string text_of_reset(quota_reset when, sys_seconds reset) {
  if (when != quota_reset::unknown) return std::string{name_of(when)};
  const auto day = floor<days>(reset);
  const year_month_day date{day};
  const hh_mm_ss time{reset - day};
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                     time.minutes().count());
}

}  // namespace canigo::gateway
