// The functions of pool_core for callers that wait for tasks, for groups and for the end of the pool.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

namespace canigo::detail {

void pool_core::ready(pool_waiter& w, int code) noexcept {
  pool_waiter_list::remove(w);
  self_waits_.end(w);
  w.state_ = pool_waiter::state::ending;
  w.code_ = code;
  make_ready(w, w.at_home_);
}

void pool_core::ready_all(pool_waiter_list& list) noexcept {
  while (pool_waiter_link* l = list.first()) ready(static_cast<pool_waiter&>(*l), pool_task::no_code);
}

/// Checks whether all workers run operations that wait for this pool. That may happen after the number of workers was
/// reduced. If so, ends one of these waits with `deadlock`. When the worker of that wait has continued or left, this
/// function is called again.
void pool_core::end_hopeless_wait() noexcept {
  if (!self_waits_.is_hopeless(crew_.running(), crew_.able())) return;
  for (const auto& worker : workers_) {
    for (auto* at = worker->first_self_wait(); at != nullptr; at = at->next_self_wait()) {
      auto& w = static_cast<pool_waiter&>(*at);
      pool_task* t = w.task_;
      if (t != nullptr && (t->state() == task_state::running || has_ended(t->state()))) continue;
      if (w.purpose_ == pool_waiter::purpose::run) {
        backlog_.remove(*t);
        end(*t, task_state::failed, pool_task::deadlock);
        admit_held();
      } else {
        ready(w, pool_task::deadlock);
      }
      return;
    }
  }
}

void pool_core::fail(pool_waiter& w, int code) noexcept {
  const change c{*this};
  ready(w, code);
}

/// Starts a wait for a task. A wait that could never end ends immediately with `deadlock`. A wait could never end if an
/// operation waits for its own task, group or pool, or if all workers would then wait for their own pool.
void pool_core::wait_for(pool_task& t, pool_waiter& w) noexcept {
  const change c{*this};
  w.task_ = &t;
  const auto* inside = static_cast<const pool_worker*>(w.inside());
  if (t.is_delivered_) {
    ready(w, pool_task::no_code);
  } else if ((inside != nullptr && inside->current_ == &t) ||
             (!has_ended(t.state()) && !self_waits_.begin(w, crew_.able()))) {
    ready(w, pool_task::deadlock);
  } else {
    w.wait_in(t.waiters_);
  }
}

void pool_core::wait_group(std::uint64_t group, pool_waiter& w) noexcept {
  const change c{*this};
  pool_waiter_list* list = groups_.waiters(group);
  const auto* inside = static_cast<const pool_worker*>(w.inside());
  const task_extras* own = inside != nullptr ? inside->current_->extras_ : nullptr;
  if (list == nullptr) {
    ready(w, pool_task::no_code);
  } else if ((own != nullptr && own->group() == group) || !self_waits_.begin(w, crew_.able())) {
    ready(w, pool_task::deadlock);
  } else {
    w.wait_in(*list);
  }
}

void pool_core::wait_closed(pool_waiter& w) noexcept {
  const change c{*this};
  if (w.inside() != nullptr) {
    ready(w, pool_task::deadlock);
  } else if (has_closed()) {
    ready(w, pool_task::no_code);
  } else {
    w.wait_in(closed_waiters_);
  }
}

void pool_core::cancel_wait(pool_waiter& w) noexcept {
  const change c{*this};
  if (w.state_ != pool_waiter::state::waiting) return;
  if (w.purpose_ == pool_waiter::purpose::run) {
    cancel_locked(*w.task_);
  } else {
    ready(w, pool_task::aborted);
  }
}

}  // namespace canigo::detail
