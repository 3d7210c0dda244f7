#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace canigo::jobs::detail {

/// A field of a cron schedule: its name, its range of values, and the names of values if there are any.
struct cron_field {
  std::string_view name;
  unsigned least;
  unsigned most;
  std::string_view range;                        // the range of values as text for error messages
  std::span<const std::string_view> names = {};  // names of values; the first one stands for the value `least`
};

/// Returns a bit for each value that the text names. The text is a list of elements, separated by commas. An element is
/// `*`, a value or a range; a step may follow `*` or a range, as in `*/5` and `10-40/10`.
///
/// Throws std::system_error, errc::invalid_argument, which names the field, the text and the range.
std::uint64_t read(const cron_field& f, std::string_view text);

}  // namespace canigo::jobs::detail
