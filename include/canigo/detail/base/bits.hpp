#pragma once

#include <bit>
#include <cstdint>

namespace canigo::detail {

inline constexpr unsigned word_bits = 64;

/// The mask for bit `index` inside its word, for a bit set that is stored in several words.
constexpr std::uint64_t bit(unsigned index) noexcept { return std::uint64_t{1} << index % word_bits; }

/// The index of the lowest set bit; 64 if no bit is set.
constexpr unsigned lowest(std::uint64_t word) noexcept { return static_cast<unsigned>(std::countr_zero(word)); }

}  // namespace canigo::detail
