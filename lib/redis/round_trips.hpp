#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace canigo::redis::detail {

/// Measures how long a connection takes to answer: the shortest of the last few round trips. So neither a server that
/// paused nor one long command makes the connection count as slow.
class round_trips {
 public:
  /// Call it when another connection begins. The times of the earlier connection no longer count.
  void begin(duration took) noexcept { flights_.fill(took); }

  /// Notes that a command that was sent at `sent` is answered now. Of commands that run at the same time, only the
  /// first one counts.
  void add(time_point sent, time_point now) noexcept {
    if (sent < counted_) return;
    flights_[next_] = now - sent;
    next_ = (next_ + 1) % flights_.size();
    counted_ = now;
  }

  /// The shortest round trip; 0 before the first one.
  duration shortest() const noexcept { return *std::min_element(flights_.begin(), flights_.end()); }

  /// The time after which an answer is late even on this connection; 0 before the first round trip.
  duration allowance() const noexcept { return 3 * shortest(); }

 private:
  std::array<duration, 4> flights_{};
  std::size_t next_ = 0;
  time_point counted_ = time_point::min();
};

}  // namespace canigo::redis::detail
