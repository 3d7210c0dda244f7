#pragma once

#include "canigo/time.hpp"

#include <chrono>
#ifdef __linux__
#include <ctime>
#endif

namespace canigo::detail {

/// What steady_clock::now() says. Where that is known to be a system call, without a call of the standard library's
/// around it: reading the clock is half of what a token costs.
inline time_point steady_now() noexcept {
#ifdef __linux__
  std::timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return time_point{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
#else
  return std::chrono::steady_clock::now();
#endif
}

}  // namespace canigo::detail
