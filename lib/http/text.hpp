#pragma once

#include <algorithm>
#include <string_view>

namespace canigo::http::detail {

// HTTP's own text is ASCII, whatever the locale says, so none of this is what <cctype> has.

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
constexpr bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) noexcept { return lower(c) >= 'a' && lower(c) <= 'z'; }
constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

constexpr std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

constexpr bool same_text(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, {}, lower, lower);
}

constexpr bool starts_with_any_case(std::string_view text, std::string_view start) noexcept {
  return same_text(text.substr(0, start.size()), start);
}

/// Whether the value of a field, a list with commas, has this element.
constexpr bool has_element(std::string_view list, std::string_view element) noexcept {
  for (;;) {
    const auto comma = list.find(',');
    if (same_text(trim(list.substr(0, comma)), element)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// Whether it can be a method, or the name of a header field.
constexpr bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
  });
}

/// Whether it can be a value. A line break in it would begin another field, or another request.
constexpr bool is_field_value(std::string_view text) noexcept {
  return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

}  // namespace canigo::http::detail
