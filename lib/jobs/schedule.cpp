#include "canigo/jobs/schedule.hpp"

#include "canigo/error.hpp"

#include "cron_field.hpp"
#include "time_zone.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <optional>

namespace canigo::jobs {
namespace {

using canigo::detail::throw_invalid;
using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::year_month_day;

constexpr std::size_t most_text = 255;
constexpr sys_days past_end = std::chrono::year{10000} / 1 / 1;
/// The search for the next time ends after this span. The rarest schedule, 29 February on one day of the week, is due
/// at least once in forty years.
constexpr days longest_gap{366 * 41};

constexpr std::array<std::string_view, 12> month_names = {"jan", "feb", "mar", "apr", "may", "jun",
                                                          "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> day_names = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

const std::array<detail::cron_field, 5> fields = {{{"minute", 0, 59, "0 to 59"},
                                                   {"hour", 0, 23, "0 to 23"},
                                                   {"day of the month", 1, 31, "1 to 31"},
                                                   {"month", 1, 12, "1 to 12, jan to dec", month_names},
                                                   {"day of the week", 0, 7, "0 to 7, sun to sat", day_names}}};

/// Splits the text into five fields at its spaces and tabs.
std::array<std::string_view, 5> split(std::string_view text) {
  std::array<std::string_view, 5> parts;
  std::string_view rest = text;
  std::size_t n = 0;
  for (; n <= parts.size(); ++n) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    if (rest.empty()) break;
    const std::string_view part = rest.substr(0, rest.find_first_of(" \t"));
    if (n < parts.size()) parts[n] = part;
    rest.remove_prefix(part.size());
  }
  if (n != parts.size()) {
    throw_invalid("schedule.cron", text.substr(0, most_text),
                  "five fields: minute, hour, day of the month, month, day of the week");
  }
  return parts;
}

struct word {
  std::string_view name;
  std::string_view fields;
};
constexpr word words[] = {{"@hourly", "0 * * * *"},  {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                          {"@weekly", "0 0 * * 0"},  {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
                          {"@annually", "0 0 1 1 *"}};

std::string_view without_blanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// Returns the five fields for which a word such as @daily stands. Throws for an unknown word. A text that does not
/// begin with '@' is returned unchanged.
std::string_view fields_of(std::string_view text) {
  const std::string_view name = without_blanks(text);
  if (!name.starts_with('@')) return text;
  const auto* found = std::ranges::find(words, name, &word::name);
  if (found == std::end(words)) {
    throw_invalid("schedule.cron", name,
                  "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; a span is schedule::every()");
  }
  return found->fields;
}

constexpr bool has(std::uint64_t bits, unsigned i) noexcept { return (bits >> i & 1) != 0; }

}  // namespace

schedule schedule::every(duration period) {
  schedule s;
  s.period_ = std::chrono::floor<std::chrono::seconds>(period);
  if (period != s.period_ || s.period_ < 1s || s.period_ > days{366}) {
    throw_invalid("schedule.every", period, "1s to 366 days, whole seconds");
  }
  s.text_ = "every " + canigo::to_string(period);
  return s;
}

schedule schedule::cron(std::string_view text) {
  const std::string_view rest = without_blanks(text);
  for (const std::string_view variable : {"CRON_TZ=", "TZ="}) {
    if (!rest.starts_with(variable) || text.size() > most_text) continue;
    const std::size_t end = std::min(rest.find_first_of(" \t"), rest.size());
    return cron(rest.substr(end), rest.substr(variable.size(), end - variable.size()));
  }
  return cron(text, "UTC");
}

schedule schedule::cron(std::string_view text, std::string_view zone) {
  if (text.size() > most_text) throw_invalid("schedule.cron", text.substr(0, most_text), "up to 255 bytes");
  const auto parts = split(fields_of(text));
  schedule s;
  s.text_ = text;
  s.minutes_ = detail::read(fields[0], parts[0]);
  s.hours_ = static_cast<std::uint32_t>(detail::read(fields[1], parts[1]));
  s.days_ = static_cast<std::uint32_t>(detail::read(fields[2], parts[2]));
  s.months_ = static_cast<std::uint32_t>(detail::read(fields[3], parts[3]));
  s.weekdays_ = static_cast<std::uint32_t>(detail::read(fields[4], parts[4]));
  if (has(s.weekdays_, 7)) s.weekdays_ |= 1;
  s.needs_both_days_ = parts[2].starts_with('*') || parts[4].starts_with('*');
  s.follows_clock_ = parts[0].starts_with('*') || parts[1].starts_with('*');
  if (s.next_after(instant{}) == instant::max()) throw_invalid("schedule.cron", text, "a day that comes");
  if (zone != "UTC") {
    s.zone_ = std::make_shared<const detail::time_zone>(detail::time_zone::of(zone));
    s.text_ = "CRON_TZ=" + std::string{zone} + " " + std::string{without_blanks(text)};
  }
  return s;
}

bool schedule::has_day(sys_days day) const {
  const year_month_day date{day};
  if (!has(months_, static_cast<unsigned>(date.month()))) return false;
  const bool is_day = has(days_, static_cast<unsigned>(date.day()));
  const bool is_weekday = has(weekdays_, std::chrono::weekday{day}.c_encoding());
  return needs_both_days_ ? is_day && is_weekday : is_day || is_weekday;
}

instant schedule::next_after(instant t) const {
  if (t >= past_end) return instant::max();
  if (period_ > 0s) {
    const auto before = std::chrono::floor<std::chrono::seconds>(t).time_since_epoch();
    const auto into =
        // two modulo operations, because `before` is negative if `t` is before 1970
        (before % period_ + period_) % period_;
    const instant next{before - into + period_};
    return next < past_end ? next : instant::max();
  }
  if (zone_ != nullptr) return next_in_zone(t);
  const minute from = std::chrono::floor<std::chrono::minutes>(t) + 1min;
  const auto found = first_in(from, std::min<minute>(past_end, std::chrono::floor<days>(from) + longest_gap));
  return found ? instant{*found} : instant::max();
}

/// Returns the first minute in [`begin`, `end`) that matches the fields; nothing if there is none.
std::optional<schedule::minute> schedule::first_in(minute begin, minute end) const {
  for (sys_days day = std::chrono::floor<days>(begin); day < end; day += days{1}) {
    if (!has_day(day)) continue;
    for (auto at = std::max<minute>(begin, day); at < std::min<minute>(end, day + days{1}); at += 1min) {
      const auto n = static_cast<unsigned>((at - day).count());
      if (has(hours_, n / 60) && has(minutes_, n % 60)) return at;
    }
  }
  return std::nullopt;
}

/// Returns the first time after `t` that matches the schedule. Searches the periods of constant UTC offset one after
/// the other.
instant schedule::next_in_zone(instant t) const {
  using detail::zone_time;
  const auto up = [](zone_time local) { return std::chrono::ceil<std::chrono::minutes>(local); };
  const zone_time end = std::min<zone_time>(past_end, std::chrono::floor<days>(t) + longest_gap);
  for (zone_time from = std::chrono::floor<std::chrono::seconds>(t) + 1s; from < end;) {
    const auto p = zone_->at(from);
    minute first = up(from + p.offset);
    if (!follows_clock_ && p.begin != zone_time::min()) {
      const minute before = up(p.begin + p.offset_before);
      // If the clocks skip the scheduled local time, the job is due at the change of the clocks.
      if (p.begin == from && first_in(before, up(p.begin + p.offset))) return p.begin;
      // If the clocks were set back, some local times occur a second time after the change. These times are skipped.
      first = std::max(first, before);
    }
    const auto found = first_in(first, up(std::min(p.end, end) + p.offset));
    if (found) return *found - p.offset;
    from = p.end;
  }
  return instant::max();
}

}  // namespace canigo::jobs
