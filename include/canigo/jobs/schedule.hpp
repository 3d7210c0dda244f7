#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::jobs {

/// The times at which a job is repeated, in UTC. A value.
///
///     schedule::every(10min)            // 00:00, 00:10, 00:20 …
///     schedule::cron("30 6 * * mon-fri")  // half past six on working days
class schedule {
 public:
  /// The multiples of a span since 1970-01-01T00:00:00Z, so that all processes agree on them.
  ///
  /// Throws std::system_error, errc::invalid_argument, unless `period` is of whole seconds, 1s to 366 days.
  static schedule every(duration period);
  /// The minutes that a text in the form of crontab(5) names: minute, hour, day of the month, month, day of the week.
  ///
  /// A field is `*`, a value, a range, or a list of these with commas; a range or `*` may have a step, as in `*/15`.
  /// Months and days of the week have names as well, as in `jan` or `mon`; a week begins with `sun`, which is 0 and 7.
  /// If neither field of a day begins with `*`, a day has to match one of the two, otherwise both.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the field, its text and the range; also if no time ever
  /// matches, as for the 30th of February.
  static schedule cron(std::string_view text);

  /// The first time after `t`; instant::max() if that is later than the year 9999.
  instant next_after(instant t) const;
  /// As it was made: "every 10m", or the text of cron().
  const std::string& text() const noexcept { return text_; }

 private:
  schedule() = default;
  bool has_day(std::chrono::sys_days day) const;

  std::string text_;
  std::chrono::seconds period_{0};  // 0: of cron()
  // A bit for each value.
  std::uint64_t minutes_ = 0;
  std::uint32_t hours_ = 0;
  std::uint32_t days_ = 0;
  std::uint32_t months_ = 0;
  std::uint32_t weekdays_ = 0;
  bool needs_both_days_ = true;
};

}  // namespace canigo::jobs
