#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// The deadline of a task: the end of its delay, of its time or of the time that it may wait.
///
/// While it is armed it needs no reference: the end of its task disarms it first, and a task that has not ended keeps
/// the pool. A call that is under way when the alarm is disarmed gets its references then. All under the pool's lock.
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
  std::uint16_t late_calls_ = 0;  // calls to come although it was disarmed: each in a thread, with its references
  bool is_armed_ = false;
};

}  // namespace canigo::detail
