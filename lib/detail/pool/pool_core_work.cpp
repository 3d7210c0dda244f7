// The functions of pool_core that give tasks to workers, and end the tasks whose operations have ended.

#include "canigo/detail/base/random.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

namespace canigo::detail {

/// Takes the next task for a worker. This function is inline, like all functions that work_off() calls for a short
/// operation. Calls that are not inlined would take a fifth of the time of such an operation.
[[gnu::always_inline]] inline pool_task* pool_core::take_next(pool_worker& w, bool clock_is_right) noexcept {
  pool_task* first = backlog_.take(flows_);
  if (first == nullptr) return nullptr;
  pool_task& t = *first;
  t.worker_ = &w;
  w.current_ = &t;
  crew_.begin(w, t.is_long());
  ++w.serial_;
  if (t.is_long()) hold_loop();
  if (task_extras* x = t.extras_) {
    if (!clock_is_right) coarse_now_ = time_->now();
    x->begin_attempt(coarse_now_);
    if (x->name != nullptr) {
      ++x->name->attempts;
      x->name->waited.record(x->started_at - x->queued_at);
    }
    if (x->due_at != time_point::max()) x->alarm.arm(x->due_at);
  }
  if (backlog_.held() > 0) admit_held();
  return &t;
}

/// Ends the task `done`, if it is not null. Then runs tasks with short operations until no task is left, the next task
/// has a long operation, or other handlers of the loop must run. Returns the task with the long operation; null if
/// there is none. For a parked worker, also stores the returned task in handed_. If null is returned, a parked worker
/// goes to sleep.
pool_task* pool_core::work_off(pool_worker& w, bool is_parked, pool_task* done) {
  if (done != nullptr) w.weigh(*done);
  bool clock_is_right = pool_turn::needs_time(*this) || (done != nullptr && done->extras_ != nullptr);
  const time_point now = clock_is_right ? time_->now() : time_point::min();
  mutex_.lock();
  coarse_now_ = std::max(coarse_now_, now);
  if (done != nullptr && !finish(w, *done)) done = nullptr;
  for (;;) {
    pool_task* t = nullptr;
    if (w.tasks_left_ > 0 && w.is(pool_worker::state::awake) && !must_leave()) t = take_next(w, clock_is_right);
    if (is_parked) {
      if (t == nullptr) {
        w.settle();
      } else if (t->is_long()) {
        w.handed_ = t;
      }
    }
    if (t == nullptr && is_parked && pool_turn::is_of(*this)) {
      carry_out(true);
    } else {
      unlock();
    }
    if (done != nullptr) done->release_ref();
    if (t != nullptr) --w.tasks_left_;
    if (t == nullptr || t->is_long()) return t;
    if (options_.observer != nullptr) [[unlikely]]
      options_.observer->attempt_started(t->event());
    try {
      t->call(w.context_);
    } catch (...) {
      w.end_.caught(t->end_cause());
    }
    if (!w.end_.error && t->extras_ == nullptr) [[likely]] {
      // These statements replace finish() in the simple case: no result to inspect, and no observer to notify.
      t->is_dropped_ = true;
      mutex_.lock();
      crew_.end(w, false);
      w.current_ = nullptr;
      w.failures_ = 0;
      ++counts_.report.succeeded;
      t->is_delivered_ = true;
      t->state_.store(task_state::succeeded, std::memory_order_release);
      if (!t->waiters_.empty()) ready_all(t->waiters_);
      if (backlog_.held() > 0) admit_held();
      if (stop_.is_asked()) check_stop();
      clock_is_right = false;
      done = t;
    } else {
      w.weigh(*t);
      const time_point ended = time_->now();
      mutex_.lock();
      coarse_now_ = std::max(coarse_now_, ended);
      clock_is_right = true;
      done = finish(w, *t) ? t : nullptr;
    }
  }
}

pool_core::step pool_core::next_step_with_resource(pool_worker& w, pool_task*& t) noexcept {
  pool_task* done = std::exchange(t, nullptr);
  if (done != nullptr) w.weigh(*done);
  const std::exception_ptr error = w.end_.error;
  mutex_.lock();
  coarse_now_ = time_->now();
  auto due = worker_resource::function::none;
  if (done != nullptr) {
    if (!finish(w, *done)) done = nullptr;
    due = w.resource_.after_use(error, w.end_.is_fatal, resources_->has_reset);
  }
  step s = step::care;
  if (due == worker_resource::function::none) {
    if (!w.is_retired() && (w.is(pool_worker::state::leaving) || must_leave())) w.retire();
    if (w.is_retired() || (w.resource_.get() != nullptr && !w.is_equipped())) {
      // The worker may have been told to end while it was going to sleep. In that case it ends after the destruction of
      // its resource, even if other work is due for the resource.
      if (w.resource_.get() != nullptr) due = worker_resource::function::destroy;
      s = step::leave;
    } else if (w.is(pool_worker::state::resting) || !backlog_.has_ready()) {
      s = step::rest;
    } else {
      due = w.resource_.before_use(resources_->has_check);
      s = step::work;
    }
  }
  if (due != worker_resource::function::none) {
    w.begin_care(due);
    s = step::care;
  } else if (s == step::work) {
    t = take_next(w, true);
  }
  unlock();
  if (done != nullptr) done->release_ref();
  return s;
}

/// Called when the operation of `t` has ended. If `t` has task_extras, the caller has set coarse_now_ to the current
/// time. Returns true if the worker must release its reference to the task.
bool pool_core::finish(pool_worker& w, pool_task& t) noexcept {
  std::exception_ptr e = w.end_.take_error();
  crew_.end(w, t.is_long());
  if (t.is_long()) {
    release_loop();
    self_waits_.disown(w);
  }
  w.current_ = nullptr;
  t.worker_ = nullptr;
  task_extras* x = t.extras_;
  if (x != nullptr) {
    x->alarm.disarm();
    const duration ran = time_between(x->started_at, coarse_now_);
    // once the end of the task was reported, an observer may be reading `ran`, so it must not change
    if (!t.is_told_) x->ran = ran;
    if (x->name != nullptr) x->name->ran.record(ran);
    if (t.flow() != 0) flows_.release(t);
  }
  if (!e) {
    w.failures_ = 0;
  } else if (w.end_.is_fatal && !resources_) {
    w.restart(e);
  }
  if (t.is_told_) {
    check_stop();
    return true;
  }
  if (w.end_.may_retry && !t.cancel_requested_ && stop_.tries_again() && !t.has_lost_flow_) {
    const time_point now = time_->now();
    const time_point at = x->next_attempt_at(now, next_random(random_), w.end_.least_delay);
    if (at != time_point::max()) {
      ++counts_.retries;
      t.end_cause_.store(pool_task::cause::none, std::memory_order_release);
      queue(t, at <= now ? time_point::min() : at);
      return false;
    }
  }

  const task_state s = e ? task_life::state_after_throw(w.end_.cause) : task_state::succeeded;
  const int code = pool_task::code_of(s);
  if (code != pool_task::no_code) e = nullptr;
  const bool can_be_told = t.is_dropped_ && options_.observer == nullptr && (x == nullptr || x->group() == 0);
  if (can_be_told) {
    counts_.add_end(s, x != nullptr ? x->name : nullptr);
    t.set_end(s, code, std::move(e));
    deliver(t);
  } else {
    end(t, s, code, std::move(e));
  }
  if (backlog_.held() > 0) admit_held();
  if (stop_.is_asked()) check_stop();
  return can_be_told;
}

}  // namespace canigo::detail
