#pragma once

#include <chrono>
#include <string>
#include <type_traits>

namespace canigo {

namespace detail {

// 128-bit integers hold the exact product of two 64-bit counts, such as nanoseconds and tokens. g++ and clang have them
// on every 64-bit target; __extension__ silences -Wpedantic.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

}  // namespace detail

/// A span of time. The library counts in whole nanoseconds and never rounds a deadline.
using duration = std::chrono::nanoseconds;

/// An instant of the monotonic clock. As a deadline, `time_point::max()` means "never".
using time_point = std::chrono::steady_clock::time_point;

static_assert(std::is_same_v<time_point::duration, duration>, "canigo needs a steady clock that counts in nanoseconds");

/// A deadline: the instant after which a result is useless. It is a time_point; `max()` means no deadline. Code that
/// passes a time span as a deadline does not compile.
struct deadline_point : time_point {
  constexpr deadline_point() noexcept : time_point{time_point::max()} {}
  template <class Duration>
  constexpr deadline_point(const std::chrono::time_point<clock, Duration>& t) noexcept : time_point{t} {}
  template <class Rep, class Period>
  constexpr deadline_point(std::chrono::duration<Rep, Period>) noexcept {
    static_assert(std::is_void_v<Rep>,
                  "deadline: a point in time is wanted, not a span: time_source::of(executor).now() + 2s");
  }
};

/// `t + d`, limited to the range of time_point.
constexpr time_point saturating_add(time_point t, duration d) noexcept {
  if (d > duration::zero() && t > time_point::max() - d) return time_point::max();
  if (d < duration::zero() && t < time_point::min() - d) return time_point::min();
  return t + d;
}

/// The time from `since` to `now`, at most duration::max(). It is 0 if `now` is not later than `since`, for example
/// because the clock of a destroyed context returns time_point::min().
constexpr duration time_between(time_point since, time_point now) noexcept {
  if (now <= since) return duration::zero();
  if (since < time_point{} && now > time_point::max() + since.time_since_epoch()) return duration::max();
  return now - since;
}

/// Formats the duration in the largest unit that represents it exactly: "3s", "1500ms", "2h", "-5us", "0s".
///
/// Allocates: the string.
std::string to_string(duration span);

}  // namespace canigo
