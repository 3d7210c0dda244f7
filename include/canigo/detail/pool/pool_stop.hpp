#pragma once

#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <cstddef>

namespace canigo::detail {

/// How far the stop of a pool has come, and what that means for its workers and tasks.
///
/// | mode           | new tasks | retries and restarts | workers leave           | lost workers come back |
/// |----------------|-----------|----------------------|-------------------------|------------------------|
/// | (none)         | yes       | yes                  | no                      | yes                    |
/// | drain          | no        | yes                  | when no task is left    | while tasks wait       |
/// | finish_running | no        | no                   | after their operation   | no                     |
/// | cancel_all     | no        | no                   | after their operation   | no                     |
///
/// Threads: none; its owner holds a lock.
class pool_stop {
 public:
  /// Goes on to a mode; false if the pool has come so far already.
  bool raise(stop_mode m) noexcept {
    if (m <= mode_) return false;
    mode_ = m;
    return true;
  }
  /// From `at` on the pool waits for no operation. False if the grace ends earlier, or is over already.
  bool end_grace_at(time_point at) noexcept {
    if (mode_ == stop_mode::cancel_all || at >= grace_at_) return false;
    grace_at_ = at;
    return true;
  }

  bool is_asked() const noexcept { return mode_ != stop_mode{}; }
  bool is_draining() const noexcept { return mode_ == stop_mode::drain; }
  bool cancels() const noexcept { return mode_ == stop_mode::cancel_all; }
  /// Whether a task that failed may have another attempt, and a worker that broke starts again.
  bool tries_again() const noexcept { return mode_ <= stop_mode::drain; }
  /// Whether a worker without an operation leaves; `tasks` are those that have not ended.
  bool ends_workers(std::size_t tasks) const noexcept {
    return mode_ >= stop_mode::finish_running || (is_draining() && tasks == 0);
  }
  /// Whether a worker that was lost is to come back; `tasks` are those that wait.
  bool replaces_workers(std::size_t tasks) const noexcept { return !is_asked() || (is_draining() && tasks > 0); }

 private:
  stop_mode mode_ = stop_mode{};  // 0: not stopping
  time_point grace_at_ = time_point::max();
};

}  // namespace canigo::detail
