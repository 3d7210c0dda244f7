#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Money in whole millionths of a US dollar. It is never a number with a floating point.
using micro_usd = std::uint64_t;

inline constexpr micro_usd one_usd = 1'000'000;
/// The most that a price or a budget may be: a billion dollars.
inline constexpr micro_usd most_usd = 1'000'000'000 * one_usd;

/// Reads a number of dollars, such as "50", "0.15" or "2.5", with up to 6 digits behind the point and no sign. It is at
/// most most_usd.
std::optional<micro_usd> parse_usd(std::string_view text) noexcept;
inline constexpr std::string_view usd_syntax =
    "a number of US dollars such as \"0.15\", up to 1000000000, with up to 6 digits behind the point";

/// "0.15", "50", "0.000001": without zeros at the end.
std::string usd_text(micro_usd amount);

}  // namespace canigo::gateway
