#pragma once

#include <cstddef>

namespace canigo::detail {

// The models of all orders have smaller ones in their place.

/// The places in the ring of a pump: a power of two.
inline constexpr std::size_t ring_length = 256;
/// How many operations a pump works off before the loop has its turn.
inline constexpr int turn_length = 256;
/// A pump asks after so many operations whether the loop is stopped: that takes the loop's lock.
inline constexpr int stop_looks_apart = 16;

}  // namespace canigo::detail
