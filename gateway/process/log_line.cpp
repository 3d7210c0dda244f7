#include "gateway/process/log_line.hpp"

#include "canigo/time.hpp"

#include "gateway/call/answer.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace canigo::gateway {
namespace {

std::int64_t milliseconds_of(duration d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); }

/// The name of a member of a JSON object, with the comma before it and the colon after it.
class key {
 public:
  consteval key(const char* name) {
    text_[size_++] = ',';
    text_[size_++] = '"';
    while (*name != 0) text_[size_++] = *name++;
    text_[size_++] = '"';
    text_[size_++] = ':';
  }
  std::string_view text() const noexcept { return {text_.data(), size_}; }

 private:
  std::array<char, 24> text_{};
  std::size_t size_ = 0;
};

/// Formats a time such as "2026-11-29T08:30:00". The last result is cached, because most calls end in the same second
/// as the previous call.
std::string_view text_of(std::chrono::sys_seconds second) {
  namespace ch = std::chrono;
  thread_local ch::sys_seconds last{ch::seconds{-1}};
  thread_local std::string text;
  if (second != last || text.empty()) {
    const auto day = ch::floor<ch::days>(second);
    const ch::year_month_day date{day};
    const ch::hh_mm_ss<ch::seconds> time{second - day};
    text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                       time.minutes().count(), time.seconds().count());
    last = second;
  }
  return text;
}

/// Builds a JSON object. This class must be fast, because a line is written for each call. So it only appends texts,
/// and parses no format strings.
class json_object {
 public:
  json_object() { text_.reserve(512); }

  void add(const key& k, std::string_view value) {
    begin(k);
    append_json_string(text_, value);
  }
  /// Adds a text in which no character needs an escape.
  void add_plain(const key& k, std::string_view value) {
    begin(k);
    text_.append(1, '"').append(value).append(1, '"');
  }
  void add_or_null(const key& k, std::string_view value) {
    begin(k);
    if (value.empty()) {
      text_ += "null";
    } else {
      append_json_string(text_, value);
    }
  }
  template <class Number>
  void add_number(const key& k, Number value) {
    begin(k);
    append(value);
  }
  template <class Number>
  void add_number(const key& k, std::optional<Number> value) {
    begin(k);
    if (value) {
      append(*value);
    } else {
      text_ += "null";
    }
  }
  /// Adds a time in UTC, with milliseconds.
  void add(const key& k, std::chrono::system_clock::time_point t) {
    namespace ch = std::chrono;
    const auto second = ch::floor<ch::seconds>(t);
    begin(k);
    text_.append(1, '"').append(text_of(second)).append(1, '.');
    append_digits(static_cast<unsigned>(ch::floor<ch::milliseconds>(t - second).count()), 3, 'Z');
    text_ += '"';
  }
  /// Adds a number that is given as its decimal digits.
  void add_digits(const key& k, std::string_view digits) {
    begin(k);
    text_ += digits;
  }
  std::string line() && {
    text_.front() = '{';
    text_ += "}\n";
    return std::move(text_);
  }

 private:
  void begin(const key& k) { text_ += k.text(); }
  template <class Number>
  void append(Number n) {
    const fmt::format_int digits{n};
    text_.append(digits.data(), digits.size());
  }
  void append_digits(unsigned n, std::size_t width, char after) {
    const fmt::format_int digits{n};
    if (digits.size() < width) text_.append(width - digits.size(), '0');
    text_.append(digits.data(), digits.size()).append(1, after);
  }

  std::string text_;
};

}  // namespace

std::string log_line(const call_record& r) {
  json_object line;
  line.add("time", r.time);
  line.add_plain("id", r.id);
  line.add_or_null("tenant", r.tenant);
  line.add_or_null("class", r.priority);
  line.add_or_null("route", r.route);
  line.add_or_null("upstream", r.upstream);
  if (!r.target.empty()) line.add("target", r.target);
  line.add_plain("method", r.method);  // needs no escapes, because a method is a token of RFC 9110
  line.add("host", r.host);
  line.add("path", r.path);
  line.add_or_null("upstream_id", r.texts ? std::string_view{r.texts->upstream_id} : std::string_view{});
  line.add_number("status", r.status);
  line.add_or_null("error", r.error);
  line.add_or_null("detail", r.texts ? std::string_view{r.texts->detail} : std::string_view{});
  line.add_number("wait_ms", milliseconds_of(r.waited));
  line.add_or_null("bound_by", r.bound_by);
  line.add_number("attempts", r.attempts);
  line.add_or_null("kept", r.kept);
  line.add_number("connect_ms", milliseconds_of(r.connect));
  line.add_number("first_byte_ms", r.first_byte ? std::optional{milliseconds_of(*r.first_byte)} : std::nullopt);
  line.add_number("total_ms", milliseconds_of(std::chrono::steady_clock::now() - r.since));
  line.add_number("bytes_in", r.bytes_in);
  line.add_number("bytes_out", r.bytes_out);
  line.add_number("tokens_asked", r.tokens_asked.get());
  line.add_number("tokens_used", r.tokens_used.get());
  if (r.texts && r.texts->usd) line.add_digits("usd", usd_text(*r.texts->usd));
  return std::move(line).line();
}

}  // namespace canigo::gateway
