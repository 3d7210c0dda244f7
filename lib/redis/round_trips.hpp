#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace canigo::redis::detail {

/// Measures how long a connection takes to answer: the shortest of the last 4 round trips. So one slow answer, after a
/// pause of the server or a long command, does not make the connection count as slow.
class round_trips {
 public:
  /// Call it when a new connection begins. `took`: the time that the server took to answer the first commands. This
  /// time replaces the times of the earlier connection.
  void begin(duration took) noexcept { flights_.fill(took); }

  /// Records that a command which was sent at `sent` is answered at `now`. If several commands run at the same time,
  /// only the first answer counts.
  void add(time_point sent, time_point now) noexcept {
    if (sent < counted_) return;
    flights_[next_] = now - sent;
    next_ = (next_ + 1) % flights_.size();
    counted_ = now;
  }

  /// The shortest round trip; 0 before the first one.
  duration shortest() const noexcept { return *std::min_element(flights_.begin(), flights_.end()); }

  /// The longest time that an answer may take without being late: three times the shortest round trip. 0 before the
  /// first round trip.
  duration allowance() const noexcept { return 3 * shortest(); }

 private:
  std::array<duration, 4> flights_{};
  std::size_t next_ = 0;
  time_point counted_ = time_point::min();
};

}  // namespace canigo::redis::detail
