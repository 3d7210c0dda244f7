#pragma once

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_heap.hpp"

#include <cstdint>

namespace canigo::detail {

// One token increases the tag of a flow of weight 1 by this number. All weights up to 16 divide this number. It is more
// than twice the square of the greatest weight, so the rounding errors of two tags together are less than one token.
inline constexpr std::uint64_t token_at_weight_1 = std::uint64_t{720'720} * 4096;
static_assert(token_at_weight_1 > 2 * std::uint64_t{fair_queue::most_weight} * fair_queue::most_weight);

/// key_of() returns a key for a heap that is ordered by class, and then by tag.
inline constexpr unsigned tag_bits = 96;
inline uint128 key_of(int of_class, uint128 tag, std::uint32_t flow) noexcept {
  return uint128{static_cast<unsigned>(of_class)} << (tag_bits + flow_bits) | tag << flow_bits | flow;
}
inline int class_of(uint128 key) noexcept { return static_cast<int>(key >> (tag_bits + flow_bits)); }

/// Returns a key for a heap that is ordered by time.
inline uint128 key_of(time_point t, std::uint32_t flow) noexcept {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return uint128{static_cast<std::uint64_t>(t.time_since_epoch().count()) ^ sign} << 64 | flow;
}

inline time_point time_of(uint128 key) noexcept {
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  return time_point{duration{static_cast<std::int64_t>(static_cast<std::uint64_t>(key >> 64) ^ sign)}};
}

}  // namespace canigo::detail
