// Who waits for what in a pool.

#include "canigo/detail/pool/pool_core.hpp"

namespace canigo::detail {

void pool_core::attach(pool_waiter& w, pool_waiter_list& list) noexcept {
  w.state_ = pool_waiter::state::waiting;
  list.push(w);
}

void pool_core::ready(pool_waiter& w, int code) noexcept {
  pool_waiter_list::remove(w);
  if (w.inside_ != nullptr) {
    pool_waiter** place = &w.inside_->nested_waits_;
    while (*place != &w) place = &(*place)->next_inside_;
    *place = w.next_inside_;
    if (w.inside_->nested_waits_ == nullptr) --blocked_;
    w.inside_ = nullptr;
  }
  w.state_ = pool_waiter::state::ending;
  w.code_ = code;
  make_ready(w, w.at_home_);
}

void pool_core::ready_all(pool_waiter_list& list) noexcept {
  while (pool_waiter_link* l = list.first()) ready(static_cast<pool_waiter&>(*l), pool_task::no_code);
}

/// Whether with `w` every worker would wait for this pool, from inside. Notes that its worker does, if not.
bool pool_core::would_block_all(pool_waiter& w) noexcept {
  if (w.inside_ == nullptr) return false;
  pool_worker& worker = *w.inside_;
  if (worker.nested_waits_ == nullptr && blocked_ + 1 >= crew_.able()) {
    w.inside_ = nullptr;
    return true;
  }
  if (worker.nested_waits_ == nullptr) ++blocked_;
  w.next_inside_ = worker.nested_waits_;
  worker.nested_waits_ = &w;
  return false;
}

/// Its operation has ended, and has left behind who waits inside: that holds up no worker any more.
void pool_core::disown_waits(pool_worker& w) noexcept {
  while (pool_waiter* left_behind = w.nested_waits_) {
    w.nested_waits_ = left_behind->next_inside_;
    left_behind->inside_ = nullptr;
  }
  --blocked_;
}

/// Where fewer workers are left, and each of them waits for its own pool, one of these waits ends. That frees its
/// worker, to go on or to leave, and then this is looked at again.
void pool_core::end_hopeless_wait() noexcept {
  if (blocked_ == 0 || blocked_ != crew_.running() || blocked_ < crew_.able()) return;
  for (const auto& worker : workers_) {
    for (pool_waiter* w = worker->nested_waits_; w != nullptr; w = w->next_inside_) {
      pool_task* t = w->task_;
      if (t != nullptr && (t->state() == task_state::running || has_ended(t->state()))) continue;
      if (w->purpose_ == pool_waiter::purpose::run) {
        backlog_.remove(*t);
        end(*t, task_state::failed, pool_task::deadlock, nullptr);
        admit_held();
      } else {
        ready(*w, pool_task::deadlock);
      }
      return;
    }
  }
}

void pool_core::fail(pool_waiter& w, int code) noexcept {
  const change c{*this};
  w.inside_ = nullptr;
  ready(w, code);
}

void pool_core::wait_for(pool_task& t, pool_waiter& w) noexcept {
  const change c{*this};
  w.task_ = &t;
  if (t.is_delivered_) {
    w.inside_ = nullptr;
    ready(w, pool_task::no_code);
  } else if (w.inside_ != nullptr &&
             w.inside_->current_ == &t) {  // it can't end before the operation that waits for it
    w.inside_ = nullptr;
    ready(w, pool_task::deadlock);
  } else if (!has_ended(t.state()) && would_block_all(w)) {
    ready(w, pool_task::deadlock);
  } else {
    attach(w, t.waiters_);
  }
}

void pool_core::wait_group(std::uint64_t group, pool_waiter& w) noexcept {
  const change c{*this};
  pool_waiter_list* list = groups_.waiters(group);
  const task_extras* inside = w.inside_ != nullptr ? w.inside_->current_->extras_ : nullptr;
  if (list == nullptr) {
    w.inside_ = nullptr;
    ready(w, pool_task::no_code);
  } else if (inside != nullptr && inside->group() == group) {  // the same
    w.inside_ = nullptr;
    ready(w, pool_task::deadlock);
  } else if (would_block_all(w)) {
    ready(w, pool_task::deadlock);
  } else {
    attach(w, *list);
  }
}

void pool_core::wait_closed(pool_waiter& w) noexcept {
  const change c{*this};
  if (w.inside_ != nullptr) {  // it can't end before the operation does that waits for it
    w.inside_ = nullptr;
    ready(w, pool_task::deadlock);
  } else if (has_closed()) {
    ready(w, pool_task::no_code);
  } else {
    attach(w, closed_waiters_);
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
