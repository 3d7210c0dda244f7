#pragma once

#include "canigo/detail/base/ascii.hpp"

#include <algorithm>
#include <string_view>

namespace canigo::http::detail {

using canigo::detail::is_blank;
using canigo::detail::is_digit;
using canigo::detail::is_letter;
using canigo::detail::lower;
using canigo::detail::same_text;
using canigo::detail::trim;

constexpr bool starts_with_any_case(std::string_view text, std::string_view start) noexcept {
  return same_text(text.substr(0, start.size()), start);
}

/// Whether the value of a field, as a comma-separated list, contains this element.
constexpr bool has_element(std::string_view list, std::string_view element) noexcept {
  for (;;) {
    const auto comma = list.find(',');
    if (same_text(trim(list.substr(0, comma)), element)) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

/// Whether the text can be a method, or the name of a header field.
constexpr bool is_token(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
  });
}

/// Whether the text can be the value of a field. A line break in it would begin another field, or another request.
constexpr bool is_field_value(std::string_view text) noexcept {
  return text.find_first_of(std::string_view{"\r\n\0", 3}) == std::string_view::npos;
}

}  // namespace canigo::http::detail
