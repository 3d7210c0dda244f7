#pragma once

#include "zone_rule.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// How far local time is from UTC, as the time zone database has it; a value.
class time_zone {
 public:
  /// A span with one offset.
  struct period {
    zone_time begin;  ///< zone_time::min(): the first one
    zone_time end;    ///< zone_time::max(): the last one
    std::chrono::seconds offset;
    std::chrono::seconds offset_before;  ///< until `begin`
  };

  /// Reads the zone from the folder that TZDIR names, or /usr/share/zoneinfo. Throws errc::invalid_argument with the
  /// name.
  static time_zone of(std::string_view name);
  /// A file in the format of RFC 9636 (TZif); none if it is not one.
  static std::optional<time_zone> read(std::string_view file);

  period at(zone_time t) const;

 private:
  std::chrono::seconds first_{0};      // the offset before all changes
  std::vector<zone_change> changes_;   // each to another offset
  zone_time last_ = zone_time::min();  // until then the file's own changes count; after that the rule
  std::optional<zone_rule> rule_;      // the rule after the changes
};

}  // namespace canigo::jobs::detail
