// The functions of pool_core that stop the pool.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

#include <algorithm>
#include <mutex>

namespace canigo::detail {

void pool_core::request_stop(stop_mode mode, duration grace) noexcept {
  const change c{*this};
  if (context_gone_) return;
  apply_stop(mode);
  if (grace == duration::max()) return;
  const time_point at = saturating_add(time_->now(), std::max(grace, duration::zero()));
  if (stop_.end_grace_at(at)) grace_.arm(at);
}

void pool_core::apply_stop(stop_mode mode) noexcept {
  if (stop_.raise(mode)) {
    while (pool_task* t = stop_.is_draining() ? backlog_.take_any_held() : backlog_.take_any())
      end(*t, task_state::stopped, pool_task::code_of(task_state::stopped));
    if (stop_.cancels()) {
      grace_.disarm();
      for (const auto& w : workers_) {
        pool_task* t = w->current_;
        if (t != nullptr && task_life::on(task_life::event::stop, t->where()) != task_life::action::nothing) {
          t->note_cause(pool_task::cause::stop);
        }
        if (w->is(pool_worker::state::running) || w->is(pool_worker::state::repairing)) w->cancel();
      }
    }
    if (!stop_.is_draining()) wake_all();
  }
  check_stop();
}

/// If the pool drains and has no tasks left, wakes the workers, so that they end. If the pool has closed, resumes the
/// callers that wait for its closing.
void pool_core::check_stop() noexcept {
  if (!stop_.is_asked()) return;
  if (stop_.is_draining() && backlog_.size() + crew_.running() == 0) wake_all();
  if (has_closed()) ready_all(closed_waiters_);
}

/// Whether the pool is closed: a stop was requested, all workers have ended, and the callers of all ended tasks were
/// resumed. The pool stays open while a lost worker has yet to be replaced, so that the remaining tasks run.
bool pool_core::has_closed() const noexcept {
  return crew_.is_empty() && undelivered_ == 0 && stop_.is_asked() && !is_short_of_workers();
}

bool pool_core::is_closed() const noexcept {
  const std::lock_guard lock{mutex_};
  return has_closed();
}

stop_report pool_core::report() const {
  const std::lock_guard lock{mutex_};
  return counts_.report;
}

}  // namespace canigo::detail
