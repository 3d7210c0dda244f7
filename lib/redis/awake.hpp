#pragma once

#include <cstdint>
#include <ctime>

namespace canigo::redis::detail {

/// Returns the nanoseconds of a clock that also runs while the machine sleeps, like the server's clock.
inline std::int64_t awake_or_not() noexcept {
  timespec t{};
#ifdef CLOCK_BOOTTIME
  ::clock_gettime(CLOCK_BOOTTIME, &t);
#else
  ::clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

}  // namespace canigo::redis::detail
