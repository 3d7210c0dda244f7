#include "gateway/config/calendar.hpp"

#include <date/tz.h>
#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

// The standard library of g++ has time zones only since version 14. So this file uses Howard Hinnant's date library, on
// which the time zones of the standard are based.
namespace canigo::gateway {
namespace {

using date::local_days;
using date::local_seconds;
using std::chrono::sys_seconds;

/// Returns the time zone with this name; null for UTC, which needs no zone database.
const date::time_zone* zone_of(const std::string& name) { return name == "UTC" ? nullptr : date::locate_zone(name); }

/// A period, from `begin` to `end`, in which the offset of a zone from UTC does not change.
struct clocks {
  sys_seconds begin = sys_seconds::min();
  sys_seconds end = sys_seconds::max();
  std::chrono::seconds offset{0};
  std::string name = "UTC";
};

clocks clocks_at(const date::time_zone* zone, sys_seconds at) {
  if (zone == nullptr) return {};
  const date::sys_info info = zone->get_info(at);
  return {info.begin, info.end, info.offset, info.abbrev};
}

local_seconds local_of(const clocks& c, sys_seconds at) { return local_seconds{(at + c.offset).time_since_epoch()}; }

sys_seconds instant_of(const date::time_zone* zone, local_days day) {
  const local_seconds midnight = day;
  return zone == nullptr ? sys_seconds{midnight.time_since_epoch()} : zone->to_sys(midnight, date::choose::earliest);
}

/// Returns the first day of the window that contains `day`.
local_days first_day(calendar_unit u, local_days day) {
  if (u == calendar_unit::week) return day - (date::weekday{day} - date::Monday);
  if (u != calendar_unit::month) return day;
  const date::year_month_day d{day};
  return local_days{d.year() / d.month() / 1};
}

/// Returns the first day of the window after the window that begins at `first`.
local_days next_day(calendar_unit u, local_days first) {
  if (u == calendar_unit::week) return first + date::days{7};
  if (u != calendar_unit::month) return first + date::days{1};
  const date::year_month_day d{first};
  return local_days{(d.year() / d.month() + date::months{1}) / 1};
}

}  // namespace

bool is_time_zone(const std::string& name) noexcept {
  try {
    zone_of(name);
    return true;
  } catch (const std::exception&) {  // the zone does not exist, or the system has no zone database
    return false;
  }
}

calendar_window window_of(calendar_unit u, const std::string& zone_name, sys_seconds at) {
  const date::time_zone* const zone = zone_of(zone_name);
  const clocks now = clocks_at(zone, at);
  const local_seconds local = local_of(now, at);
  if (u == calendar_unit::hour) {
    const sys_seconds begin = at - (local - date::floor<std::chrono::hours>(local));
    return {std::max(begin, now.begin), std::min<sys_seconds>(begin + std::chrono::hours{1}, now.end)};
  }
  local_days first = first_day(u, date::floor<date::days>(local));
  const auto window = [&] { return calendar_window{instant_of(zone, first), instant_of(zone, next_day(u, first))}; };
  calendar_window w = window();
  // If the clocks go back over midnight, the local date becomes the previous day again, although the window of that day
  // has already ended. So this loop moves on to the window that contains `at`.
  while (at >= w.end) {
    first = next_day(u, first);
    w = window();
  }
  return w;
}

std::string local_text(const std::string& zone, sys_seconds at) {
  const clocks c = clocks_at(zone_of(zone), at);
  const local_seconds local = local_of(c, at);
  const local_days day = date::floor<date::days>(local);
  const date::year_month_day d{day};
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(local - day).count();
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} {}", static_cast<int>(d.year()), static_cast<unsigned>(d.month()),
                     static_cast<unsigned>(d.day()), minutes / 60, minutes % 60, c.name);
}

}  // namespace canigo::gateway
