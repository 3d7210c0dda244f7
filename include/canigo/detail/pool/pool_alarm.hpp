#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_task;

/// A deadline of a pool or of one of its workers; holds a reference to the pool while armed. All under the pool's lock.
class pool_alarm : public deadline {
 public:
  using function_type = void (*)(pool_core&, pool_alarm&) noexcept;

  /// `f` is called under the pool's lock, and not if its context goes first.
  pool_alarm(pool_core& c, function_type f) noexcept;

  bool is_armed() const noexcept { return is_armed_; }
  void arm(time_point when) noexcept;
  void disarm() noexcept;

 private:
  void rang(due why) noexcept;

  pool_core* core_;
  function_type function_;
  time_point when_{};
  bool is_armed_ = false;
};

/// The deadline of a task: the end of its delay, of its time or of the time that it may wait.
///
/// It needs no references while armed: whoever ends its task disarms it first, and a task that has not ended keeps the
/// pool. A call that comes too late to be taken back gets them then.
class task_alarm : public deadline {
 public:
  task_alarm(pool_core& c, pool_task& t) noexcept;

  pool_task& task() const noexcept { return *task_; }
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
  std::uint16_t late_calls_ = 0;  // to come although it was disarmed: each in a thread, with its references
  bool is_armed_ = false;
};

}  // namespace canigo::detail
