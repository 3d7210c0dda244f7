#include "gateway/config/money.hpp"

#include "gateway/wire/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace canigo::gateway {

std::optional<micro_usd> parse_usd(std::string_view text) noexcept {
  constexpr std::size_t most_digits = 10, most_behind = 6;
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view behind = point == text.npos ? std::string_view{} : text.substr(point + 1);
  const auto is_number = [](std::string_view digits) { return std::ranges::all_of(digits, is_digit); };
  if (whole.empty() || whole.size() > most_digits || behind.size() > most_behind) return std::nullopt;
  if (!is_number(whole) || !is_number(behind) || (point != text.npos && behind.empty())) return std::nullopt;
  micro_usd amount = 0;
  for (const char digit : whole) amount = amount * 10 + static_cast<micro_usd>(digit - '0');
  for (std::size_t i = 0; i < most_behind; ++i)
    amount = amount * 10 + (i < behind.size() ? static_cast<micro_usd>(behind[i] - '0') : 0);
  return amount <= most_usd ? std::optional{amount} : std::nullopt;
}

std::string usd_text(micro_usd amount) {
  std::string text = fmt::format("{}.{:06}", amount / one_usd, amount % one_usd);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace canigo::gateway
