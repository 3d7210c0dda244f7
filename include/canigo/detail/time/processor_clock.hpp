#pragma once

#include "canigo/detail/time/counter_clock.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#ifdef __linux__
#include <ctime>
#endif

namespace canigo::detail {

/// The value of steady_clock::now(). On Linux this calls clock_gettime() without the standard library, because reading
/// the clock is half of the cost of granting a token.
inline time_point steady_now() noexcept {
#ifdef __linux__
  std::timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return time_point{std::chrono::seconds{t.tv_sec} + std::chrono::nanoseconds{t.tv_nsec}};
#else
  return std::chrono::steady_clock::now();
#endif
}

/// The processor's time-stamp counter, and the system's steady clock.
struct processor_counter {
  /// Whether the counter has a constant frequency, and Linux uses it for its own clock.
  static bool is_trusted() noexcept;

  static std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    // "memory" forbids the compiler to move this read before the acquisition of a lock
    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return std::uint64_t{high} << 32 | low;
#elif defined(__aarch64__)
    std::uint64_t ticks = 0;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
#else
    return 0;
#endif
  }

  /// Reads the counter after all earlier instructions and before all later ones. This takes some nanoseconds longer
  /// than ticks().
  static std::uint64_t ticks_between() noexcept {
    wait();
    const std::uint64_t read = ticks();
    wait();
    return read;
  }

  static time_point now() noexcept { return steady_now(); }

 private:
  static void wait() noexcept {
#if defined(__x86_64__)
    __asm__ volatile("lfence" : : : "memory");
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory");
#endif
  }
};

/// The clock of all contexts that have no virtual time.
extern counter_clock<processor_counter> processor_clock;

}  // namespace canigo::detail
