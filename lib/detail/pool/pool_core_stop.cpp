// How a pool stops.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <mutex>

namespace canigo::detail {

void check_stop(stop_mode mode) {
  if (mode < stop_mode::drain || mode > stop_mode::cancel_all) {
    throw_invalid("pool.stop: mode", static_cast<int>(mode), "drain, finish_running, cancel_all");
  }
}

void pool_core::request_stop(stop_mode mode, duration grace) noexcept {
  const change c{*this};
  if (context_gone_) return;
  if (mode > mode_) apply_stop(mode);
  if (mode_ != stop_mode::cancel_all && grace != duration::max()) {
    const time_point at = saturating_add(time_->now(), std::max(grace, duration::zero()));
    if (at < grace_at_) grace_.arm(grace_at_ = at);
  }
  check_closed();
}

void pool_core::apply_stop(stop_mode mode) noexcept {
  mode_ = mode;
  if (mode == stop_mode::drain) {
    while (pool_task* t = backlog_.take_any_held()) end_stopped(*t);
  } else {
    while (pool_task* t = backlog_.take_any()) end_stopped(*t);
  }
  if (mode == stop_mode::cancel_all) {
    grace_.disarm();
    for (const auto& w : workers_) {
      pool_task* t = w->current_;
      if (t != nullptr && task_life::on(task_life::event::stop, t->where()) != task_life::action::nothing) {
        t->note_cause(pool_task::cause::stop);
      }
      if (w->is(pool_worker::state::running) || w->is(pool_worker::state::repairing)) request_cancel(*w);
    }
  }
  if (mode != stop_mode::drain) {
    wake_all();
  } else {
    check_drained();
  }
}

void pool_core::end_stopped(pool_task& t) noexcept {
  end(t, task_state::stopped, static_cast<int>(errc::stopped), nullptr);
}

void pool_core::grace_is_over() noexcept {
  counts_.report.escalated = crew_.running();
  apply_stop(stop_mode::cancel_all);
}

void pool_core::check_drained() noexcept {
  if (mode_ == stop_mode::drain && is_drained()) wake_all();
}

/// A worker that is lost while others wait to be drained is still to come back.
bool pool_core::has_closed() const noexcept {
  return crew_.is_empty() && undelivered_ == 0 && mode_ != stop_mode{} && !is_short_of_workers();
}

void pool_core::check_closed() noexcept {
  if (has_closed()) ready_all(closed_waiters_);
}

bool pool_core::is_closed() const noexcept {
  const std::lock_guard lock{mutex_};
  return has_closed();
}

}  // namespace canigo::detail
