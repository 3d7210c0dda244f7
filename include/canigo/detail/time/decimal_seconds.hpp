#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <optional>
#include <string_view>

namespace canigo::detail {

/// Parses a decimal number of seconds, perhaps with a fraction: "7", "1.5". A fraction is rounded up to milliseconds,
/// and the result is at most `most`. std::nullopt if the text is no such number.
///
/// HTTP allows only whole seconds in Retry-After (RFC 9110, 10.2.3), but some servers send a fraction.
constexpr std::optional<duration> parse_decimal_seconds(std::string_view text, duration most) noexcept {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view whole = text.substr(0, text.find('.'));
  const bool has_fraction = whole.size() < text.size();
  const std::string_view fraction = has_fraction ? text.substr(whole.size() + 1) : std::string_view{};
  if (whole.empty() || (has_fraction && fraction.empty())) return std::nullopt;
  for (const std::string_view part : {whole, fraction}) {
    for (const char c : part) {
      if (!is_digit(c)) return std::nullopt;
    }
  }
  const auto bound = std::chrono::ceil<std::chrono::seconds>(most).count();
  long long seconds = 0;
  for (const char c : whole) {
    seconds = seconds * 10 + (c - '0');
    if (seconds >= bound) return most;
  }
  int milliseconds = 0;
  int unit = 100;
  for (const char c : fraction) {
    if (unit == 0 && c != '0') {
      ++milliseconds;
      break;
    }
    milliseconds += unit * (c - '0');
    unit /= 10;
  }
  const duration left = most - std::chrono::seconds{seconds};
  const duration more = std::chrono::milliseconds{milliseconds};
  return most - left + (more < left ? more : left);
}

}  // namespace canigo::detail
