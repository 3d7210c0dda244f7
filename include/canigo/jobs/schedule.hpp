#pragma once

#include "canigo/jobs/job_info.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::jobs {

namespace detail {
class time_zone;
}

/// The times at which a job is repeated, in UTC or in a time zone. It is a value.
///
///     schedule::every(10min)                               // 00:00, 00:10, 00:20 …
///     schedule::cron("30 6 * * mon-fri")                   // half past six on working days, in UTC
///     schedule::cron("30 6 * * mon-fri", "Europe/Berlin")  // the same time in Berlin
class schedule {
 public:
  /// All multiples of `period` since 1970-01-01T00:00:00Z, so that all processes agree on the times.
  ///
  /// Throws std::system_error (errc::invalid_argument) unless `period` is a whole number of seconds, from 1s to 366
  /// days.
  static schedule every(duration period);
  /// The minutes that match a text in the format of crontab(5): minute, hour, day of the month, month, day of the week.
  ///
  /// A field is `*`, a value, a range, or a list of these with commas; a range or `*` may have a step, as in `*/15`.
  /// Months and days of the week also have names, such as `jan` or `mon`; the number of `sun` is 0 or 7. If neither the
  /// day of the month nor the day of the week begins with `*`, a day must match at least one of these two fields.
  /// Otherwise a day must match both fields. A word can replace all fields: `@hourly`, `@daily` or `@midnight`,
  /// `@weekly` (on Sunday), `@monthly`, `@yearly` or `@annually`.
  ///
  /// A time zone may precede the fields, as in `CRON_TZ=Europe/Berlin 30 6 * * *`. Without a time zone the times are in
  /// UTC.
  ///
  /// When clocks are put forward, local times are skipped. If times of the schedule are skipped, the job is due once,
  /// at the instant when the clocks are put forward. When clocks are put back, local times occur twice. Then the job is
  /// due only the first time. A schedule whose minute or hour field begins with `*` follows other rules: a skipped time
  /// is ignored, and a time that occurs twice is due twice.
  ///
  /// Throws std::system_error (errc::invalid_argument) if a field is invalid; the error text names the field, its text
  /// and the range. Also throws if no time ever matches, for example with the 30th of February.
  static schedule cron(std::string_view text);
  /// Like cron(text), but in a zone of the time zone database, such as `Europe/Berlin`, instead of UTC.
  ///
  /// Reads the zone from a file in the folder TZDIR, or in /usr/share/zoneinfo. A later change of that file has no
  /// effect on this schedule. Also throws if there is no such zone.
  static schedule cron(std::string_view text, std::string_view zone);

  /// The first time of the schedule after `t`; instant::max() if it is later than the year 9999.
  instant next_after(instant t) const;
  /// The text of the schedule: "every 10m", or the text given to cron(), with its zone.
  const std::string& text() const noexcept { return text_; }

 private:
  using minute = std::chrono::sys_time<std::chrono::minutes>;

  schedule() = default;
  bool has_day(std::chrono::sys_days day) const;
  std::optional<minute> first_in(minute begin, minute end) const;
  instant next_in_zone(instant t) const;

  std::string text_;
  std::chrono::seconds period_{0};  // the period of every(); 0: cron() made the schedule
  // The matching values of a field are a bit mask with one bit for each value.
  std::uint64_t minutes_ = 0;
  std::uint32_t hours_ = 0;
  std::uint32_t days_ = 0;
  std::uint32_t months_ = 0;
  std::uint32_t weekdays_ = 0;
  bool needs_both_days_ = true;
  bool follows_clock_ = true;
  std::shared_ptr<const detail::time_zone> zone_ = {};  // the time zone of the schedule; null: UTC
};

}  // namespace canigo::jobs
