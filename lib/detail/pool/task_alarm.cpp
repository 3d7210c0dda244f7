#include "canigo/detail/pool/task_alarm.hpp"

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_task.hpp"

namespace canigo::detail {

task_alarm::task_alarm(pool_core& c, pool_task& t) noexcept
    : deadline{[](deadline& d, due why) noexcept { static_cast<task_alarm&>(d).rang(why); }}, core_{&c}, task_{&t} {}

void task_alarm::arm(time_point when) noexcept {
  disarm();
  when_ = when;
  is_armed_ = core_->time_->arm(*this, when);
}

void task_alarm::take_back() noexcept {
  is_armed_ = false;
  if (core_->time_->cancel(*this)) return;
  ++late_calls_;
  task_->add_ref();
  core_->add_ref();
}

void task_alarm::rang(due why) noexcept {
  pool_task& t = *task_;
  pool_core& core = *core_;
  {
    const pool_core::change c{core};
    if (why == due::shutdown && is_armed_) {
      is_armed_ = false;
      return;
    }
    const time_point now = core.time_->now();
    if (!is_armed_ || now < when_) {
      --late_calls_;
    } else {
      is_armed_ = false;
      // This call may be late: it may come from an earlier alarm that was cancelled too late. It handles the present
      // alarm, too. If cancel() succeeds, the present alarm causes no call of its own. So this call also releases the
      // references that were taken for the call of the present alarm.
      if (late_calls_ > 0 && core.time_->cancel(*this)) {
        --late_calls_;
      } else {
        t.add_ref();
        core.add_ref();
      }
      core.time_is_up(t, now);
    }
  }
  t.release_ref();
  core.release_ref();
}

}  // namespace canigo::detail
