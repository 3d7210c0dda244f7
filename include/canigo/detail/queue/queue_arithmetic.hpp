#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <limits>

// Arithmetic with instants for wait_queue and fair_queue.
namespace canigo::detail {

constexpr std::uint64_t saturated(uint128 value) noexcept {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  return value > most ? most : static_cast<std::uint64_t>(value);
}

/// The time between two instants in nanoseconds; 0 if `to` is earlier. A plain subtraction of time_point::min() would
/// overflow.
constexpr std::uint64_t span(time_point from, time_point to) noexcept {
  if (to <= from) return 0;
  return static_cast<std::uint64_t>(to.time_since_epoch().count()) -
         static_cast<std::uint64_t>(from.time_since_epoch().count());
}

}  // namespace canigo::detail
