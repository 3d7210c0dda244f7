#pragma once

#include "canigo/detail/base/ascii.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace canigo::gateway {

using canigo::detail::is_digit;
using canigo::detail::is_letter;
using canigo::detail::lower;
using canigo::detail::same_text;

/// Returns the text without the spaces and tabs around it.
constexpr std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

constexpr bool starts_with_text(std::string_view text, std::string_view start) noexcept {
  return text.size() >= start.size() && same_text(text.substr(0, start.size()), start);
}

/// A set of characters, stored as a table, so that a look-up is fast.
class character_set {
 public:
  template <class Test>
  constexpr explicit character_set(Test test) {
    for (int i = 0; i < 256; ++i) has_[static_cast<unsigned char>(i)] = test(static_cast<char>(i));
  }
  constexpr bool has(char c) const noexcept { return has_[static_cast<unsigned char>(c)]; }
  constexpr bool has_all_of(std::string_view text) const noexcept {
    return std::ranges::all_of(text, [this](char c) { return has(c); });
  }

 private:
  std::array<bool, 256> has_{};
};

inline constexpr character_set token_characters{[](char c) {
  return is_letter(c) || is_digit(c) || std::string_view{"!#$%&'*+-.^_`|~"}.find(c) != std::string_view::npos;
}};
/// The characters that may be percent-encoded without a change of the URI's meaning (RFC 3986, 2.3).
inline constexpr character_set unreserved_characters{
    [](char c) { return is_letter(c) || is_digit(c) || std::string_view{"-._~"}.find(c) != std::string_view::npos; }};
inline constexpr character_set value_characters{[](char c) { return !(c >= 0 && c < 0x20 && c != '\t') && c != 0x7f; }};

/// Whether the text can be a method, or the name of a header field.
constexpr bool is_token(std::string_view text) noexcept { return !text.empty() && token_characters.has_all_of(text); }

/// Whether the text can be the value of a header field: it has no control character except tabs. A line break in it
/// would begin another field.
constexpr bool is_field_value(std::string_view text) noexcept { return value_characters.has_all_of(text); }

/// Calls `use` with each element of a comma-separated list, trimmed. Skips empty elements.
template <class Use>
constexpr void for_each_element(std::string_view list, Use use) {
  for (;;) {
    const auto comma = list.find(',');
    const std::string_view element = trim(list.substr(0, comma));
    if (!element.empty()) use(element);
    if (comma == list.npos) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace canigo::gateway
