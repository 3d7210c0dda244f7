#pragma once

#include <bit>
#include <cstdint>

namespace canigo::detail {

inline constexpr unsigned word_bits = 64;

/// The bit of `index` in its word, for a row of words with one bit for each index.
constexpr std::uint64_t bit(unsigned index) noexcept { return std::uint64_t{1} << index % word_bits; }

/// The index of the lowest bit that is set; 64 if none is.
constexpr unsigned lowest(std::uint64_t word) noexcept { return static_cast<unsigned>(std::countr_zero(word)); }

}  // namespace canigo::detail
