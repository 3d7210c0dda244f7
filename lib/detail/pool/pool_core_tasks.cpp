// The functions of pool_core that accept, queue and end tasks.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/detail/pool/pool_worker.hpp"
#include "canigo/error.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

namespace {

/// Returns when the delay of a new task ends; time_point::min() if it has none.
time_point end_of_delay(const task_extras* x, const time_source& time) noexcept {
  return x != nullptr && x->delay > duration::zero() ? x->delayed_until(time.now()) : time_point::min();
}

}  // namespace

void pool_core::prepare_with(pool_task& t, const task_options& o) {
  t.priority = static_cast<std::uint16_t>(o.priority);
  if (is_plain_ && is_plain(o)) return;
  t.extras_ = new task_extras{*this, t};
  task_extras& x = *t.extras_;
  x.timeout = o.timeout.value_or(options_.timeout);
  x.deadline = o.deadline;
  x.delay = o.delay;
  x.retry = o.retry.attempts == 0 ? options_.retry : o.retry;
  if (o.group != 0) x.choose_group(o.group);
  if (o.flow != nullptr) flows_.choose(t, *o.flow);
  if (o.name.empty()) return;
  const std::lock_guard lock{mutex_};
  x.name = &names_.of(o.name);
}

void pool_core::prepare_for_handle(pool_task& t, const task_options* o) {
  prepare(t, o);
  add_ref();
  t.home_ = this;
}

/// Returns the current time. Within one turn of the event loop, the clock is read only once.
[[gnu::always_inline]] inline time_point pool_core::fresh_now() noexcept {
  if (!crew_.is_on_the_move() && pool_turn::needs_time(*this)) coarse_now_ = time_->now();
  return coarse_now_;
}

/// Returns the error code if the pool refuses the task, otherwise no_code. If the pool is full, its options determine
/// whether it first evicts another task.
[[gnu::always_inline]] inline int pool_core::refusal(pool_task& t) noexcept {
  if (stop_.is_asked()) return static_cast<int>(errc::stopped);
  if (backlog_.has_room()) [[likely]]
    return pool_task::no_code;
  return make_room(t) ? pool_task::no_code : static_cast<int>(errc::queue_full);
}

/// Evicts another task from a full pool if the pool's options demand it. Returns whether the new task is accepted. In a
/// pool with flows, the task must also fit into the limit of its flow.
bool pool_core::make_room(pool_task& t) noexcept {
  const time_point now = backlog_.has_flows() ? time_->now() : time_point::min();
  const auto [is_let_in, victim] = backlog_.admit(t, crew_.free(), now);
  if (victim == nullptr) return is_let_in;
  backlog_.remove(*victim);
  ++counts_.evicted;
  end(*victim, task_state::failed, static_cast<int>(errc::evicted));
  return true;
}

/// Accepts a task. The function is inline, because half of the time to submit an operation is spent in it.
[[gnu::always_inline]] inline void pool_core::accept(pool_task& t) noexcept {
  t.id_ = ++next_id_;
  ++counts_.report.submitted;
  if (t.extras_ != nullptr || t.place_ != pool_task::place::queue) return accept_with_extras(t);
  backlog_.add(t, fresh_now());
  if (crew_.first_idle() != nullptr) wake_one();
}

bool pool_core::post(pool_task& t, const task_options* o) {
  prepare(t, o);
  const change c{*this};
  if (refusal(t) != pool_task::no_code) {
    ++counts_.rejected;
    flows_.count_refusal(t);
    return false;
  }
  accept(t);
  return true;
}

void pool_core::submit(pool_task& t) noexcept {
  t.add_ref();
  const change c{*this};
  if (const int code = refusal(t); code != pool_task::no_code) {
    refuse(t, code);
  } else {
    accept(t);
  }
}

void pool_core::run(pool_task& t, pool_waiter& w) noexcept {
  t.add_ref();
  const change c{*this};
  w.task_ = &t;
  const bool blocks_all = !self_waits_.begin(w, crew_.able());
  w.wait_in(t.waiters_);
  if (blocks_all) return refuse(t, pool_task::deadlock);
  const int code = refusal(t);
  const bool is_held = code == static_cast<int>(errc::queue_full) && options_.on_overflow == overflow::wait;
  if (is_held) t.place_ = pool_task::place::held;
  if (code == pool_task::no_code || is_held) {
    accept(t);
  } else {
    refuse(t, code);
  }
}

void pool_core::refuse(pool_task& t, int code) noexcept {
  ++counts_.rejected;
  flows_.count_refusal(t);
  end(t, code == static_cast<int>(errc::stopped) ? task_state::stopped : task_state::failed, code);
}

void pool_core::accept_with_extras(pool_task& t) noexcept {
  task_extras* x = t.extras_;
  if (x != nullptr) {
    if (x->retry.budget != nullptr) x->retry.budget->pay_in();
    if (x->group() != 0) groups_.join(*x);
  }
  if (t.place_ != pool_task::place::held) return queue(t, end_of_delay(x, *time_));
  if (x != nullptr && x->deadline != time_point::max()) x->alarm.arm(x->deadline);
  backlog_.hold(t, time_->now());
}

/// Queues a task immediately if `not_before` is time_point::min(). Otherwise sets the task's timer (its alarm), which
/// queues the task at `not_before`.
void pool_core::queue(pool_task& t, time_point not_before) noexcept {
  task_extras* x = t.extras_;
  if (not_before != time_point::min()) {
    backlog_.delay(t, time_->now());
    return x->alarm.arm(not_before);
  }
  const bool is_measured = x != nullptr && (x->name != nullptr || options_.observer != nullptr);
  if (is_measured) coarse_now_ = time_->now();
  const time_point now = is_measured ? coarse_now_ : fresh_now();
  if (x != nullptr) {
    x->queued_at = now;
    if (x->deadline != time_point::max() && !x->alarm.is_armed()) x->alarm.arm(x->deadline);
  }
  backlog_.queue(t, now);
  wake_one();
}

void pool_core::admit_held() noexcept {
  if (backlog_.held() == 0) return;
  const time_point now = backlog_.has_flows() && !context_gone_ ? time_->now() : coarse_now_;
  while (backlog_.held() > 0 && backlog_.has_room(backlog_.first_held(now), crew_.free(), now)) {
    pool_task& t = backlog_.take_held(coarse_now_);
    queue(t, end_of_delay(t.extras_, *time_));
  }
}

/// Ends a task whose callable may still exist, or whose end must be reported. Takes over the caller's reference to the
/// task.
void pool_core::end(pool_task& t, task_state s, int code, std::exception_ptr e) noexcept {
  if (t.id_ != 0) {
    task_extras* x = t.extras_;
    if (x != nullptr) x->alarm.disarm();
    counts_.add_end(s, x != nullptr ? x->name : nullptr);
  }
  if (t.place_ == pool_task::place::flow_queue) flows_.watch();
  t.set_end(s, code, std::move(e));
  t.next_ended_ = ended_;
  ended_ = &t;
  ++undelivered_;
  note_due();
}

/// Ends a task that waits in the queue or for its delay.
void pool_core::end_waiting(pool_task& t, task_state s) noexcept {
  backlog_.remove(t);
  end(t, s, pool_task::code_of(s));
  admit_held();
  check_stop();
}

/// Reports that a task has ended, although the task's operation continues to run.
void pool_core::tell_early(pool_task& t) noexcept {
  ++counts_.overdue;
  t.is_told_ = true;
  if (task_extras* const x = t.extras_; x != nullptr) x->ran = time_between(x->started_at, time_->now());
  t.add_ref();
  const task_state s = task_life::state_after_throw(t.end_cause());
  end(t, s, pool_task::code_of(s));
}

void pool_core::deliver(pool_task& t) noexcept {
  t.is_delivered_ = true;
  if (!t.waiters_.empty()) ready_all(t.waiters_);
  task_extras* x = t.extras_;
  if (x == nullptr || x->group() == 0 || t.id_ == 0) return;
  pool_waiter_list waiters = groups_.leave(*x);
  ready_all(waiters);
}

bool pool_core::cancel(pool_task& t) noexcept {
  const change c{*this};
  return cancel_locked(t);
}

bool pool_core::cancel_locked(pool_task& t) noexcept {
  const task_life::action what = task_life::on(task_life::event::cancel, t.where());
  if (what == task_life::action::nothing) return false;
  if (what == task_life::action::end) {
    end_waiting(t, task_state::cancelled);
    return true;
  }
  t.cancel_requested_ = true;
  t.note_cause(pool_task::cause::owner);
  if (what == task_life::action::ask) t.worker_->cancel();
  return true;
}

std::size_t pool_core::cancel_group(std::uint64_t group) noexcept {
  const change c{*this};
  std::size_t n = 0;
  for (pool_group_member* m = groups_.first(group); m != nullptr; m = m->next_in_group())
    n += cancel_locked(static_cast<task_extras&>(*m).alarm.task()) ? 1 : 0;
  return n;
}

void pool_core::time_is_up(pool_task& t, time_point now) noexcept {
  task_extras& x = *t.extras_;
  const task_life::action what = x.on_time(t.where(), now);
  if (what == task_life::action::end) return end_waiting(t, task_state::timed_out);
  if (what == task_life::action::queue) {
    backlog_.remove(t);
    return queue(t, time_point::min());
  }
  x.is_late = true;
  t.note_cause(pool_task::cause::time);
  if (what == task_life::action::ask) t.worker_->cancel();
  if (what == task_life::action::tell) tell_early(t);
}

}  // namespace canigo::detail
