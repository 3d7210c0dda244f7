#pragma once

#include <charconv>
#include <cstddef>
#include <iterator>
#include <memory>
#include <string_view>
#include <system_error>

namespace canigo::jobs::detail {

/// Reads a number at the front of a text into `n`, and removes it from the text. Returns false if the text does not
/// begin with a number, or `n` can't hold the number.
template <class Number>
bool take_number(std::string_view& text, Number& n) noexcept {
  const char* const begin = std::to_address(text.begin());
  const auto [end, error] = std::from_chars(begin, std::to_address(text.end()), n);
  text.remove_prefix(static_cast<std::size_t>(std::distance(begin, end)));
  return error == std::errc{};
}

/// Whether the whole text is one number that `n` can hold. If so, stores it in `n`.
template <class Number>
bool is_number(std::string_view text, Number& n) noexcept {
  return take_number(text, n) && text.empty();
}

}  // namespace canigo::jobs::detail
