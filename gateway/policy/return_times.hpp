#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <chrono>

namespace canigo::gateway {

/// Chooses the times at which refused calls of one tenant and class should come back, so that they do not all come back
/// at the same time.
///
/// Each refused call gets a time that is one grant later than that of the previous refused call. For example, if the
/// next grant is in 2 seconds and a grant comes every second, three calls get 2, 3 and 4 seconds.
///
/// If this time would be more than a minute after the limit's next grant, the call gets the time of the next grant. The
/// reason is that many of the earlier calls never come back. Threads: one at a time.
class return_times {
 public:
  /// Returns how long a refused call should wait before it comes back. `wait`: the time until a call that came now
  /// would be granted. `spacing`: the time between two grants.
  duration next(time_point now, duration wait, duration spacing) noexcept {
    constexpr duration longest_row = std::chrono::minutes{1};
    const time_point first = saturating_add(now, wait);
    const time_point behind = saturating_add(last_, spacing);
    const bool is_in_row = behind > first && behind - first <= longest_row;
    last_ = is_in_row ? behind : first;
    return last_ - now;
  }

 private:
  time_point last_{};
};

}  // namespace canigo::gateway
