#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace canigo::jobs::detail {

/// A field in the text of a schedule: its name, the values that it may have, and the names of these, if they have any.
struct cron_field {
  std::string_view name;
  unsigned least;
  unsigned most;
  std::string_view range;                        // the range as messages name it
  std::span<const std::string_view> names = {};  // the first name is that of the number `least`
};

/// A bit for each value that a text has: `*`, values and ranges, with commas between them, and steps of ranges.
///
/// Throws std::system_error, errc::invalid_argument, naming the field, the text and the range.
std::uint64_t read(const cron_field& f, std::string_view text);

}  // namespace canigo::jobs::detail
