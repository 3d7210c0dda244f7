#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace canigo::gateway {

// The functions in this file return nullopt for a text without the described form, and for a value that the result type
// can't hold. The texts have no sign and no spaces. Only parse_share() accepts fractions.

/// Reads a text such as "500ms", "20s", "2m", "12h" or "7d".
std::optional<duration> parse_duration(std::string_view text) noexcept;
inline constexpr std::string_view duration_syntax = "a time in ms, s, m, h or d such as \"20s\"";

/// Reads a number of bytes, such as "512B", "16KiB", "64MiB" or "2GiB".
std::optional<std::uint64_t> parse_size(std::string_view text) noexcept;
inline constexpr std::string_view size_syntax = "a size in B, KiB, MiB or GiB such as \"16KiB\"";

/// Reads a percentage such as "20%", up to "1000000%".
std::optional<int> parse_percent(std::string_view text) noexcept;

/// Reads a fraction that is more than 0 and at most 1, such as "0.5", "1" or "0.125".
std::optional<double> parse_share(std::string_view text) noexcept;

}  // namespace canigo::gateway
