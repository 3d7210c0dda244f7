#include "canigo/rate.hpp"

#include "canigo/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

namespace canigo {
namespace {

constexpr std::string_view syntax = "tokens/period in ns, us, ms, s, m, h or d, such as 5/s, 10/3s, 1000/1h";
constexpr std::string_view fastest = "at most 1/1ns, which is 1000000000/s";

struct unit {
  std::string_view name;
  duration length;
};

constexpr unit units[] = {{"ns", std::chrono::nanoseconds{1}},  {"us", std::chrono::microseconds{1}},
                          {"ms", std::chrono::milliseconds{1}}, {"s", std::chrono::seconds{1}},
                          {"m", std::chrono::minutes{1}},       {"h", std::chrono::hours{1}},
                          {"d", std::chrono::hours{24}}};

constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_space(char c) noexcept { return c == ' ' || c == '\t'; }

// Parses a rate from left to right. Every error quotes the text, and marks the position of the mistake.
class reader {
 public:
  explicit reader(std::string_view text) : text_(text), end_(text.size()) {
    while (at_ < end_ && is_space(text_[at_])) ++at_;
    while (end_ > at_ && is_space(text_[end_ - 1])) --end_;
  }

  rate read() {
    const std::size_t start = at_;
    const std::int64_t tokens = number("a number of tokens");
    if (at_ == end_ || text_[at_] != '/') complain("'/' expected", at_);
    if (tokens == 0) complain("a number above zero expected", start);
    ++at_;
    const std::size_t period_start = at_;
    const std::int64_t count = at_ < end_ && is_digit(text_[at_]) ? number("a period") : 1;
    if (count == 0) complain("a period above zero expected", period_start);
    const duration length = unit_length();
    if (count > duration::max() / length) complain("a shorter period expected", period_start);
    const duration period = count * length;
    if (tokens > period.count()) complain("fewer tokens expected", start, fastest);
    return {tokens, period};
  }

 private:
  [[noreturn]] void complain(std::string_view what, std::size_t where, std::string_view allowed = syntax) const {
    const std::string why =
        " (" + std::string{what}.append(" at character ").append(std::to_string(where + 1)).append(")");
    // An error text shows at most 80 characters: the quoted input and the explanation after it. If both are longer, the
    // quoted input is cut, and the explanation is complete.
    constexpr std::size_t most = 80 - std::string_view{"\"...\""}.size();
    const std::size_t longest = std::min<std::size_t>(32, most - std::min(most, why.size()));
    std::string value = '"' + std::string{text_.substr(0, longest)};
    detail::throw_invalid("rate", value.append(text_.size() > longest ? "...\"" : "\"").append(why), allowed);
  }

  std::int64_t number(std::string_view what) {
    const std::size_t start = at_;
    while (at_ < end_ && is_digit(text_[at_])) ++at_;
    if (at_ == start) complain(std::string{what}.append(" expected"), start);
    std::int64_t value = 0;
    const auto result = std::from_chars(text_.data() + start, text_.data() + at_, value);
    if (result.ec != std::errc{}) complain("a smaller number expected", start);
    return value;
  }

  duration unit_length() const {
    const std::string_view name = text_.substr(at_, end_ - at_);
    for (const unit& u : units)
      if (u.name == name) return u.length;
    complain("a unit expected", at_);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t end_;
};

}  // namespace

rate rate::parse(std::string_view text) { return reader{text}.read(); }

duration rate::time_for(std::uint64_t tokens) const noexcept {
  const auto divisor = static_cast<detail::uint128>(tokens_);
  const auto product = detail::uint128{tokens} * static_cast<std::uint64_t>(period_.count());
  const detail::uint128 span = (product + divisor - 1) / divisor;
  const auto longest = static_cast<std::uint64_t>(duration::max().count());
  return span > longest ? duration::max() : duration{static_cast<std::int64_t>(span)};
}

void rate::reject(std::int64_t tokens, duration period) {
  if (tokens < 1) detail::throw_invalid("rate.tokens", tokens, "1 to 9223372036854775807");
  if (period < duration{1}) detail::throw_invalid("rate.period", period, "1ns or more");
  const std::string text = std::to_string(tokens).append("/").append(to_string(period));
  detail::throw_invalid("rate", std::string_view{text}, fastest);
}

std::string to_string(const rate& value) {
  std::string period = to_string(value.period());
  if (period[0] == '1' && !is_digit(period[1])) period.erase(0, 1);
  return std::to_string(value.tokens()).append("/").append(period);
}

}  // namespace canigo

fmt::format_context::iterator fmt::formatter<canigo::rate>::format(const canigo::rate& value,
                                                                   fmt::format_context& context) const {
  return fmt::formatter<fmt::string_view>::format(to_string(value), context);
}
