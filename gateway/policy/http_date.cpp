#include "gateway/policy/http_date.hpp"

#include "gateway/wire/text.hpp"

#include <array>

namespace canigo::gateway {
namespace {

using std::chrono::sys_seconds;

constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
constexpr std::array<std::string_view, 7> days{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
constexpr std::array<std::string_view, 7> long_days{"Monday", "Tuesday",  "Wednesday", "Thursday",
                                                    "Friday", "Saturday", "Sunday"};

/// Reads a text from left to right. A part that does not fit makes it wrong for good.
class cursor {
 public:
  explicit cursor(std::string_view text) noexcept : text_{text} {}

  void skip(std::string_view expected) noexcept {
    if (text_.starts_with(expected)) {
      text_.remove_prefix(expected.size());
    } else {
      is_good_ = false;
    }
  }
  /// The place of the one that comes next.
  template <std::size_t N>
  unsigned one_of(const std::array<std::string_view, N>& words) noexcept {
    for (unsigned i = 0; i < N; ++i) {
      if (!text_.starts_with(words[i])) continue;
      text_.remove_prefix(words[i].size());
      return i;
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
  bool starts_with(char c) const noexcept { return text_.starts_with(c); }
  bool is_at_end() const noexcept { return is_good_ && text_.empty(); }

 private:
  std::string_view text_;
  bool is_good_ = true;
};

struct fields_of_date {
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
  // A second that is put in counts as the one after it.
  if (!date.ok() || d.hour > 23 || d.minute > 59 || d.second > 60) return std::nullopt;
  return sys_days{date} + hours{d.hour} + minutes{d.minute} + seconds{d.second};
}

/// "Sun, 06 Nov 1994 08:49:37 GMT"
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

/// "Sunday, 06-Nov-94 08:49:37 GMT"
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

/// "Sun Nov  6 08:49:37 1994"
std::optional<sys_seconds> asctime_form(std::string_view text) noexcept {
  cursor c{text};
  fields_of_date d;
  c.one_of(days);
  c.skip(" ");
  d.month = c.one_of(months);
  c.skip(" ");
  if (c.starts_with(' ')) {
    c.skip(" ");
    d.day = c.number(1);
  } else {
    d.day = c.number(2);
  }
  c.skip(" ");
  read_time(c, d);
  c.skip(" ");
  d.year = c.number(4);
  return c.is_at_end() ? instant_of(d) : std::nullopt;
}

}  // namespace

std::optional<sys_seconds> parse_http_date(std::string_view text) noexcept {
  if (const auto t = fixed_form(text)) return t;
  if (const auto t = rfc850_form(text)) return t;
  return asctime_form(text);
}

}  // namespace canigo::gateway
