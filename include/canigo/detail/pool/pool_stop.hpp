#pragma once

#include "canigo/pool.hpp"
#include "canigo/time.hpp"

#include <cstddef>

namespace canigo::detail {

/// The progress of a pool's stop, and its effects on workers and tasks.
///
/// | mode           | new tasks | retries and restarts | workers end             | lost workers replaced  |
/// |----------------|-----------|----------------------|-------------------------|------------------------|
/// | (none)         | yes       | yes                  | no                      | yes                    |
/// | drain          | no        | yes                  | when no task is left    | while tasks wait       |
/// | finish_running | no        | no                   | after their operation   | no                     |
/// | cancel_all     | no        | no                   | after their operation   | no                     |
///
/// Threads: not thread-safe; its owner must hold a lock.
class pool_stop {
 public:
  /// Changes to a harder mode. Returns false if the pool already has this mode or a harder one.
  bool raise(stop_mode m) noexcept {
    if (m <= mode_) return false;
    mode_ = m;
    return true;
  }
  /// Sets the end of the grace time to `at`. Returns false if the grace time already ends earlier, or is over.
  bool end_grace_at(time_point at) noexcept {
    if (mode_ == stop_mode::cancel_all || at >= grace_at_) return false;
    grace_at_ = at;
    return true;
  }

  bool is_asked() const noexcept { return mode_ != stop_mode{}; }
  bool is_draining() const noexcept { return mode_ == stop_mode::drain; }
  bool cancels() const noexcept { return mode_ == stop_mode::cancel_all; }
  /// Whether a failed task may have another attempt, and a broken worker may restart.
  bool tries_again() const noexcept { return mode_ <= stop_mode::drain; }
  /// Whether a worker without an operation must end. `tasks` is the number of tasks that have not ended.
  bool ends_workers(std::size_t tasks) const noexcept {
    return mode_ >= stop_mode::finish_running || (is_draining() && tasks == 0);
  }
  /// Whether a lost worker must be replaced. `tasks` is the number of waiting tasks.
  bool replaces_workers(std::size_t tasks) const noexcept { return !is_asked() || (is_draining() && tasks > 0); }

 private:
  stop_mode mode_ = stop_mode{};  // the mode of the stop; 0: the pool is not stopping
  time_point grace_at_ = time_point::max();
};

}  // namespace canigo::detail
