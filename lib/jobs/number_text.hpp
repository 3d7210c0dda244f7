#pragma once

#include <charconv>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>

namespace canigo::jobs::detail {

/// Removes a number from the front of a text. Returns false if the text does not begin with a number that fits.
template <class Number>
bool take_number(std::string_view& text, Number& n) noexcept {
  const char* const begin = std::to_address(text.begin());
  const auto [end, error] = std::from_chars(begin, std::to_address(text.end()), n);
  text.remove_prefix(static_cast<std::size_t>(std::distance(begin, end)));
  return error == std::errc{};
}

/// Whether the whole text is one number.
template <class Number>
bool is_number(std::string_view text, Number& n) noexcept {
  return take_number(text, n) && text.empty();
}

}  // namespace canigo::jobs::detail
