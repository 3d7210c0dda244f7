#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <chrono>

namespace canigo::gateway {

/// When the refused calls of a tenant in a class are told to come back, so that they do not all come at one moment.
///
/// A call is told the time at which there would be room for it behind those that were told before. If so many were told
/// that this is a minute later than the limit says, the times begin anew: many of those calls do not come.
/// Threads: one at a time.
class return_times {
 public:
  /// The wait that the answer names. `wait`: the time until a call that came now would be granted. `spacing`: the time
  /// between two grants.
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
