#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// The deadline of a task: the end of its delay, of its time limit, or of its max waiting time.
///
/// An armed alarm holds no reference. A task that has not ended keeps the pool alive, and the end of the task disarms
/// the alarm. If another thread is calling the alarm when the alarm is disarmed, that call gets its own references to
/// the task and to the pool. Used only under the pool's lock.
class task_alarm : public deadline {
 public:
  task_alarm(pool_core& c, pool_task& t) noexcept;

  pool_task& task() const noexcept { return *task_; }
  bool is_armed() const noexcept { return is_armed_; }
  void arm(time_point when) noexcept;
  void disarm() noexcept {
    if (is_armed_) take_back();
  }

 private:
  void take_back() noexcept;
  void rang(due why) noexcept;

  pool_core* core_;
  pool_task* task_;
  time_point when_{};
  // the number of calls of rang() that other threads began before the alarm was disarmed; each such call holds a
  // reference to the task and to the pool
  std::uint16_t late_calls_ = 0;
  bool is_armed_ = false;
};

}  // namespace canigo::detail
