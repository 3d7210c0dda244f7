#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <chrono>

namespace canigo::gateway {

/// Spreads the times at which refused calls of one tenant and class are told to come back, so that they do not all come
/// back at the same time.
///
/// Each refused call is told the first grant after the times that earlier calls were told. If that grant is more than a
/// minute after the limit's next grant, the call is told the limit's next grant, because many of the earlier calls
/// never come back. Threads: one at a time.
class return_times {
 public:
  /// Returns how long a refused call is told to wait. `wait`: the time until a call that came now would be granted.
  /// `spacing`: the time between two grants.
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
