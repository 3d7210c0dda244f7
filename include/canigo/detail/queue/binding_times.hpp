#pragma once

#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <cstddef>

namespace canigo::detail {

/// Sums up for how long each limit of an engine has held up the first waiter. This value type reads no clock: its
/// functions get the present time as `now`.
/// Allocates: in the constructor.
class binding_times {
 public:
  explicit binding_times(std::size_t rates) { sums_.rates.resize(rates); }

  /// Records that from `now` until the next call of note(), the limit `binds` holds up the first waiter.
  void note(time_point now, wait_reason::cause binds, std::size_t index = 0) noexcept {
    add_to(sums_, now);
    binds_ = binds;
    index_ = index;
    since_ = now;
  }
  /// Returns for how long each limit has held up the first waiter until `now`. Allocates.
  binding_stats read(time_point now) const {
    binding_stats sums = sums_;
    add_to(sums, now);
    return sums;
  }

 private:
  void add_to(binding_stats& sums, time_point now) const noexcept;

  binding_stats sums_;
  wait_reason::cause binds_ = wait_reason::cause::none;
  std::size_t index_ = 0;
  time_point since_{};
};

}  // namespace canigo::detail
