#include "zone_rule.hpp"

#include "number_text.hpp"

#include <cstddef>

namespace canigo::jobs::detail {
namespace {

using namespace std::chrono_literals;
using std::chrono::days;
using std::chrono::seconds;
using std::chrono::sys_days;

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// The greatest number of hours in a time of a rule. Version 3 of the time zone file format allows almost a week.
constexpr int most_hours = 167;

}  // namespace

/// Reads parts of a rule from the front of a text.
class zone_rule::reader {
 public:
  explicit reader(std::string_view text) : rest_{text} {}

  bool is_over() const noexcept { return rest_.empty(); }
  bool begins_with(char c) const noexcept { return rest_.starts_with(c); }
  bool take(char c) noexcept {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Reads a zone's name: three or more letters, or any text in angle brackets. Returns false for another text.
  bool take_name() noexcept {
    std::size_t size = 0;
    if (take('<')) {
      size = rest_.find('>');
      if (size == rest_.npos) return false;
      rest_.remove_prefix(size + 1);
      return true;
    }
    while (size < rest_.size() && is_letter(rest_[size])) ++size;
    rest_.remove_prefix(size);
    return size >= 3;
  }

  bool take_count(int least, int most, int& n) noexcept {
    if (rest_.empty() || !is_digit(rest_.front())) return false;
    return take_number(rest_, n) && n >= least && n <= most;
  }

  /// Reads hours, optionally with minutes and seconds. Returns false for another text.
  bool take_time(seconds& t) noexcept {
    const bool is_negative = take('-');
    if (!is_negative) take('+');
    int h = 0, m = 0, s = 0;
    if (!take_count(0, most_hours, h)) return false;
    if (take(':') && !take_count(0, 59, m)) return false;
    if (take(':') && !take_count(0, 59, s)) return false;
    t = std::chrono::hours{h} + std::chrono::minutes{m} + seconds{s};
    if (is_negative) t = -t;
    return true;
  }

  bool take_day(day& d) noexcept {
    bool is_good = false;
    if (take('M')) {
      d.what = day::type::of_month;
      is_good = take_count(1, 12, d.month) && take('.') && take_count(1, 5, d.week) && take('.') &&
                take_count(0, 6, d.weekday);
    } else if (take('J')) {
      d.what = day::type::without_leap_day;
      is_good = take_count(1, 365, d.number);
    } else {
      d.what = day::type::with_leap_day;
      is_good = take_count(0, 365, d.number);
    }
    return is_good && (!take('/') || take_time(d.at));
  }

 private:
  std::string_view rest_;
};

std::optional<zone_rule> zone_rule::read(std::string_view text) {
  zone_rule r;
  reader from{text};
  // In POSIX the offset is what must be added to local time to get UTC, so its sign is inverted.
  if (!from.take_name() || !from.take_time(r.standard_)) return std::nullopt;
  r.standard_ = -r.standard_;
  if (from.is_over()) return r;
  r.has_summer_ = true;
  r.summer_ = r.standard_ + 1h;
  if (!from.take_name()) return std::nullopt;
  if (!from.begins_with(',')) {
    if (!from.take_time(r.summer_)) return std::nullopt;
    r.summer_ = -r.summer_;
  }
  if (!from.take(',') || !from.take_day(r.begin_) || !from.take(',') || !from.take_day(r.end_)) return std::nullopt;
  return from.is_over() ? std::optional{r} : std::nullopt;
}

/// Returns the time of this change in the year `y`, as a local time with the offset that holds before the change. The
/// caller subtracts the offset to get UTC.
zone_time zone_rule::day::in(std::chrono::year y) const {
  const sys_days first{y / 1 / 1};
  sys_days d{};
  switch (what) {
    case type::of_month: {
      const auto month_of = y / std::chrono::month{static_cast<unsigned>(month)};
      const std::chrono::weekday on{static_cast<unsigned>(weekday)};
      d = week == 5 ? sys_days{month_of / on[std::chrono::last]} : sys_days{month_of / on[static_cast<unsigned>(week)]};
      break;
    }
    case type::without_leap_day:
      d = first + days{number - 1 + (y.is_leap() && number >= 60 ? 1 : 0)};
      break;
    case type::with_leap_day:
      d = first + days{number};
      break;
  }
  return d + at;
}

std::vector<zone_change> zone_rule::changes_of(std::chrono::year y) const {
  if (!has_summer_) return {};
  return {{begin_.in(y)-standard_, summer_}, {end_.in(y)-summer_, standard_}};
}

}  // namespace canigo::jobs::detail
