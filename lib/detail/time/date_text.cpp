#include "canigo/detail/time/date_text.hpp"

#include "canigo/detail/base/ascii.hpp"
#include "canigo/detail/time/decimal_seconds.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace canigo::detail {
namespace {

using std::chrono::sys_seconds;

constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> days{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> long_days{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                    "Friday", "Saturday", "Sunday"};

/// Reads a text from left to right. If one part does not match, the whole text is invalid.
class cursor {
 public:
  explicit cursor(std::string_view text) noexcept : text_{text} {}

  void skip(std::string_view expected) noexcept {
    if (!skips(expected)) is_good_ = false;
  }
  /// If the text continues with `expected`, skips `expected` and returns true.
  bool skips(std::string_view expected) noexcept {
    const bool is_next = text_.starts_with(expected);
    if (is_next) text_.remove_prefix(expected.size());
    return is_next;
  }
  /// Reads one of the words, and returns its index. If the text begins with none of them, the whole text is invalid.
  template <std::size_t N>
  unsigned one_of(const std::array<std::string_view, N>& words) noexcept {
    for (unsigned i = 0; i < N; ++i) {
      if (skips(words[i])) return i;
    }
    is_good_ = false;
    return 0;
  }
  unsigned number(std::size_t digits) noexcept {
    unsigned value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (text_.empty() || !is_digit(text_.front())) {
        is_good_ = false;
        return 0;
      }
      value = value * 10 + static_cast<unsigned>(text_.front() - '0');
      text_.remove_prefix(1);
    }
    return value;
  }
  /// Reads one or more digits. Returns true if any of the digits is not 0.
  bool fraction() noexcept {
    bool is_more = false;
    if (text_.empty() || !is_digit(text_.front())) is_good_ = false;
    while (!text_.empty() && is_digit(text_.front())) {
      is_more = is_more || text_.front() != '0';
      text_.remove_prefix(1);
    }
    return is_more;
  }
  bool is_at_end() const noexcept { return is_good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool is_good_ = true;
};

struct fields_of_date {
  // the month is counted from 0; all other fields have their usual numbers
  unsigned year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
};

void read_time(cursor& c, fields_of_date& d) noexcept {
  d.hour = c.number(2);
  c.skip(":");
  d.minute = c.number(2);
  c.skip(":");
  d.second = c.number(2);
}

std::optional<sys_seconds> instant_of(const fields_of_date& d) noexcept {
  using namespace std::chrono;
  const year_month_day date{year{static_cast<int>(d.year)}, month{d.month + 1}, std::chrono::day{d.day}};
  // Second 60 is a leap second. It counts as the first second of the next minute.
  if (!date.ok() || d.hour > 23 || d.minute > 59 || d.second > 60) return std::nullopt;
  return sys_days{date} + hours{d.hour} + minutes{d.minute} + seconds{d.second};
}

/// Reads the form "Sun, 06 Nov 1994 08:49:37 GMT". Returns nothing for another text.
std::optional<sys_seconds> fixed_form(std::string_view text) noexcept {
  cursor c{text};
  fields_of_date d;
  c.one_of(days);
  c.skip(", ");
  d.day = c.number(2);
  c.skip(" ");
  d.month = c.one_of(months);
  c.skip(" ");
  d.year = c.number(4);
  c.skip(" ");
  read_time(c, d);
  c.skip(" GMT");
  return c.is_at_end() ? instant_of(d) : std::nullopt;
}

/// Reads the form "Sunday, 06-Nov-94 08:49:37 GMT". Returns nothing for another text.
std::optional<sys_seconds> rfc850_form(std::string_view text) noexcept {
  cursor c{text};
  fields_of_date d;
  c.one_of(long_days);
  c.skip(", ");
  d.day = c.number(2);
  c.skip("-");
  d.month = c.one_of(months);
  c.skip("-");
  const unsigned year = c.number(2);
  d.year = year + (year < 70 ? 2000 : 1900);
  c.skip(" ");
  read_time(c, d);
  c.skip(" GMT");
  return c.is_at_end() ? instant_of(d) : std::nullopt;
}

/// Reads the form "Sun Nov  6 08:49:37 1994". Returns nothing for another text.
std::optional<sys_seconds> asctime_form(std::string_view text) noexcept {
  cursor c{text};
  fields_of_date d;
  c.one_of(days);
  c.skip(" ");
  d.month = c.one_of(months);
  c.skip(" ");
  d.day = c.skips(" ") ? c.number(1) : c.number(2);
  c.skip(" ");
  read_time(c, d);
  c.skip(" ");
  d.year = c.number(4);
  return c.is_at_end() ? instant_of(d) : std::nullopt;
}

struct unit_of_time {
  std::string_view name;
  std::int64_t times, parts;  // the unit in seconds is times / parts; for "ms": 1 / 1000
};
// "ms" comes before "m", because the first matching unit is used. Unicode has two characters for the micro sign.
constexpr unit_of_time units[] = {{"ms", 1, 1'000},
                                  {"us", 1, 1'000'000},
                                  {"\xc2\xb5s", 1, 1'000'000},
                                  {"\xce\xbcs", 1, 1'000'000},
                                  {"ns", 1, 1'000'000'000},
                                  {"h", 3'600, 1},
                                  {"m", 60, 1},
                                  {"s", 1, 1}};

}  // namespace

std::optional<sys_seconds> parse_http_date(std::string_view text) noexcept {
  if (const auto t = fixed_form(text)) return t;
  if (const auto t = rfc850_form(text)) return t;
  return asctime_form(text);
}

std::optional<sys_seconds> parse_rfc3339(std::string_view text) noexcept {
  cursor c{text};
  fields_of_date d;
  d.year = c.number(4);
  c.skip("-");
  d.month = c.number(2) - 1;
  c.skip("-");
  d.day = c.number(2);
  if (!c.skips("t")) c.skip("T");
  read_time(c, d);
  const bool is_more = c.skips(".") && c.fraction();
  std::chrono::seconds offset{0};
  if (!c.skips("Z") && !c.skips("z")) {
    const bool is_west = c.skips("-");
    if (!is_west) c.skip("+");
    const unsigned hours = c.number(2);
    c.skip(":");
    const unsigned minutes = c.number(2);
    if (hours > 23 || minutes > 59) return std::nullopt;
    offset = std::chrono::hours{hours} + std::chrono::minutes{minutes};
    if (is_west) offset = -offset;
  }
  const auto t = c.is_at_end() ? instant_of(d) : std::nullopt;
  if (!t) return std::nullopt;
  return *t - offset + std::chrono::seconds{is_more ? 1 : 0};
}

std::optional<duration> parse_go_duration(std::string_view text) noexcept {
  if (text.empty()) return std::nullopt;
  duration sum{};
  while (!text.empty()) {
    const auto end = std::min(text.find_first_not_of("0123456789."), text.size());
    const auto number = parse_decimal_seconds(text.substr(0, end), duration::max());
    text.remove_prefix(end);
    const auto* const unit = std::ranges::find_if(units, [&](const auto& u) { return text.starts_with(u.name); });
    if (!number || unit == std::end(units)) return std::nullopt;
    text.remove_prefix(unit->name.size());
    const duration part =
        *number > duration::max() / unit->times ? duration::max() : *number * unit->times / unit->parts;
    sum = part > duration::max() - sum ? duration::max() : sum + part;
  }
  return sum;
}

}  // namespace canigo::detail
