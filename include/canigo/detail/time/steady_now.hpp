#pragma once

#include "canigo/time.hpp"

#include <chrono>
#ifdef __linux__
#include <ctime>
#endif

namespace canigo::detail {

/// The value of steady_clock::now(). On Linux it asks the system without the call of the standard library around it,
/// because reading the clock is half of the price of a token.
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
