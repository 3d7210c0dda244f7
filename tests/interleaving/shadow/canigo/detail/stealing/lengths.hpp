#pragma once

#include <cstddef>

namespace canigo::detail {

/// Replaces the library's lengths. They are so small that a model has a full ring, and turns that end with work left.
inline constexpr std::size_t ring_length = 4;
inline constexpr int turn_length = 2;
inline constexpr int stop_looks_apart = 1;

}  // namespace canigo::detail
