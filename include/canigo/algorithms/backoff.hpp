#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace canigo {

/// How much of a delay is random.
enum class jitter {
  none,   ///< the delay as computed
  full,   ///< anything from `min` to the computed delay: spreads a crowd best
  equal,  ///< anything from half of the computed delay to all of it, but `min` at least
};

/// How long to wait before the next attempt: longer after each failure, up to a cap.
///
/// A trivially copyable value. Nothing overflows, for any fields and any number of failures.
///
/// Source of the jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
struct backoff {
  duration first = std::chrono::milliseconds{100};  ///< after the first failure, before jitter; 0 or more
  std::uint32_t factor = 2;                         ///< from one delay to the next; 1 or more
  duration cap = std::chrono::seconds{30};          ///< no delay is longer; 0 or more
  duration min = duration::zero();                  ///< no delay is shorter; 0 to cap
  canigo::jitter jitter = canigo::jitter::full;     ///< how much of each delay is random

  /// Waits `d` after each failure, without jitter.
  static constexpr backoff constant(duration d) noexcept { return {d, 1, d, d, canigo::jitter::none}; }

  /// The longest delay after the given number of failures, 1 or more.
  duration ceiling(std::uint32_t failures) const noexcept;

  /// The delay after the given number of failures. `random` is any 64 random bits.
  duration delay(std::uint32_t failures, std::uint64_t random) const noexcept;
};

namespace detail {
/// Throws errc::invalid_argument for a field outside its range. The text names it as a field of `name`.
void check(const backoff& b, std::string_view name);
}  // namespace detail

}  // namespace canigo
