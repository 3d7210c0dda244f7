#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// An amount of money in millionths of a US dollar. Integers avoid the rounding errors of floating point.
using micro_usd = std::uint64_t;

inline constexpr micro_usd one_usd = 1'000'000;
/// The largest price or budget that a configuration may contain: a billion dollars.
inline constexpr micro_usd most_usd = 1'000'000'000 * one_usd;

/// Reads a number of dollars, such as "50", "0.15" or "2.5". It has up to 6 digits after the point, and no sign.
/// Returns nothing for a text without this form, or for more than most_usd.
std::optional<micro_usd> parse_usd(std::string_view text) noexcept;
inline constexpr std::string_view usd_syntax =
    "a number of US dollars such as \"0.15\", up to 1000000000, with up to 6 digits behind the point";

/// Formats an amount in dollars without zeros at the end, such as "0.15", "50" or "0.000001".
std::string usd_text(micro_usd amount);

}  // namespace canigo::gateway
