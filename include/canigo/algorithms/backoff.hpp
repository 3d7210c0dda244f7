#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace canigo {

/// Which part of a delay is random.
enum class jitter {
  none,   ///< the delay is exactly as computed
  full,   ///< random between `min` and the computed delay; spreads many clients best
  equal,  ///< random between half of the computed delay and all of it, but at least `min`
};

/// Computes the delay before the next attempt: it grows with each failure, up to a cap.
///
/// A trivially copyable value. The computation never overflows, whatever the fields and the number of failures are.
///
/// Source of the jitter: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
struct backoff {
  duration first = std::chrono::milliseconds{100};  ///< delay after the first failure, before jitter; 0 or more
  std::uint32_t factor = 2;                         ///< each delay is this many times the previous one; 1 or more
  duration cap = std::chrono::seconds{30};          ///< the longest delay; 0 or more
  duration min = duration::zero();                  ///< the shortest delay; 0 to cap
  canigo::jitter jitter = canigo::jitter::full;     ///< which part of each delay is random

  /// Makes a backoff that waits `d` after each failure, without jitter.
  static constexpr backoff constant(duration d) noexcept { return {d, 1, d, d, canigo::jitter::none}; }

  /// The delay after the given number of failures (1 or more), before jitter.
  duration ceiling(std::uint32_t failures) const noexcept;

  /// The delay after the given number of failures, with jitter. `random` is any 64 random bits.
  duration delay(std::uint32_t failures, std::uint64_t random) const noexcept;
};

namespace detail {
/// Throws std::system_error (errc::invalid_argument) if a field is out of range. The text names the field: "retry.cap"
/// if `name` is "retry".
void check(const backoff& b, std::string_view name);
}  // namespace detail

}  // namespace canigo
