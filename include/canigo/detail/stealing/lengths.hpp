#pragma once

#include <cstddef>

namespace canigo::detail {

// The exhaustive tests of memory orders replace this file by a file with smaller numbers.

/// The number of slots in the ring of a pump (a work queue): a power of two.
inline constexpr std::size_t ring_length = 256;
/// The number of operations that a pump runs before other handlers of the loop run.
inline constexpr int turn_length = 256;
/// After this many operations a pump checks whether the loop is stopped. The check is rare, because it takes the loop's
/// lock.
inline constexpr int stop_looks_apart = 16;

}  // namespace canigo::detail
