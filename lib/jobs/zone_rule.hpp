#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

using zone_time = std::chrono::sys_seconds;

/// A change of the UTC offset: from the instant `at` on, local time is UTC plus `offset`.
struct zone_change {
  zone_time at;
  std::chrono::seconds offset;
};

/// The yearly changes of local time, in the format of the POSIX variable TZ. A value type. Example:
///
///     CET-1CEST,M3.5.0,M10.5.0/3
class zone_rule {
 public:
  /// Parses a rule. Returns nothing if the text is malformed.
  static std::optional<zone_rule> read(std::string_view text);

  std::chrono::seconds standard() const noexcept { return standard_; }
  bool has_summer() const noexcept { return has_summer_; }
  /// Returns the changes of a year, in no particular order; none if the zone has no summer time.
  std::vector<zone_change> changes_of(std::chrono::year y) const;

 private:
  struct day {
    enum class type : std::uint8_t { of_month, without_leap_day, with_leap_day };
    zone_time in(std::chrono::year y) const;
    type what = type::of_month;
    int month = 1, week = 1, weekday = 0;
    int number = 0;
    std::chrono::seconds at = std::chrono::hours{2};
  };
  class reader;

  std::chrono::seconds standard_{0};
  std::chrono::seconds summer_{0};
  bool has_summer_ = false;
  day begin_;
  day end_;
};

}  // namespace canigo::jobs::detail
