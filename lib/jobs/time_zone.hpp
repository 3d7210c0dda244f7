#pragma once

#include "zone_rule.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::jobs::detail {

/// The offsets of local time from UTC in one zone of the time zone database. A value.
class time_zone {
 public:
  /// A period in which the offset does not change.
  struct period {
    zone_time begin;  ///< when the period begins; zone_time::min() for the first period
    zone_time end;    ///< when the period ends; zone_time::max() for the last period
    std::chrono::seconds offset;
    std::chrono::seconds offset_before;  ///< the offset of the previous period
  };

  /// Reads a zone from the folder that TZDIR names, or from /usr/share/zoneinfo. Throws errc::invalid_argument; the
  /// error text names the zone.
  static time_zone of(std::string_view name);
  /// Reads a file in the format of RFC 9636 (TZif). Returns nothing if the file is malformed.
  static std::optional<time_zone> read(std::string_view file);

  period at(zone_time t) const;

 private:
  std::chrono::seconds first_{0};      // the offset before the first change
  std::vector<zone_change> changes_;   // the changes listed in the file
  zone_time last_ = zone_time::min();  // `changes_` has the changes up to this time; `rule_` determines later changes
  std::optional<zone_rule> rule_;      // the rule for the changes after `last_`; none: there are no later changes
};

}  // namespace canigo::jobs::detail
