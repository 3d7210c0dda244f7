#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace canigo::redis::detail {

/// How long a line takes to answer: the shortest of the last few round trips. So a server that stood still for a while,
/// or one long command, does not count as a slow line.
class round_trips {
 public:
  /// Call it when another connection begins. The times of the one before say nothing about this one.
  void begin(duration took) noexcept { flights_.fill(took); }

  /// Notes that a command that was sent at `sent` is answered now. Of all commands under way together only the first
  /// counts.
  void add(time_point sent, time_point now) noexcept {
    if (sent < counted_) return;
    flights_[next_] = now - sent;
    next_ = (next_ + 1) % flights_.size();
    counted_ = now;
  }

  /// The shortest round trip; 0 before the first.
  duration shortest() const noexcept { return *std::min_element(flights_.begin(), flights_.end()); }

  /// An answer that takes longer than this is late, even on a slow line. 0 if the line is unknown.
  duration allowance() const noexcept { return 3 * shortest(); }

 private:
  std::array<duration, 4> flights_{};
  std::size_t next_ = 0;
  time_point counted_ = time_point::min();
};

}  // namespace canigo::redis::detail
