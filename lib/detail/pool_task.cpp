#include "canigo/detail/pool_task.hpp"

#include "canigo/detail/pool_core.hpp"
#include "canigo/detail/pool_turn.hpp"
#include "canigo/error.hpp"

#include <asio/error.hpp>

#include <algorithm>
#include <future>
#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

namespace {

constexpr const char* explanation = "every worker of the pool would wait for the pool itself";

/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

void pool_task::let_go() noexcept {
  delete extras_;
  if (home_ != nullptr) home_->release_ref();
}

std::error_code pool_task::to_error_code(int code) noexcept {
  if (code == aborted) return net::error::operation_aborted;
  if (code == deadlock) return std::make_error_code(std::errc::resource_deadlock_would_occur);
  if (code == abandoned) return std::make_error_code(std::future_errc::broken_promise);
  return make_error_code(static_cast<errc>(code));
}

void pool_task::throw_failure() const {
  if (error_) std::rethrow_exception(error_);
  if (code_ == deadlock) throw std::system_error{to_error_code(code_), explanation};
  throw std::system_error{to_error_code(code_)};
}

std::exception_ptr pool_task::failure() const noexcept {
  if (error_ || code_ == no_code) return error_;
  try {
    throw_failure();
  } catch (...) {
    return std::current_exception();
  }
}

// What a pool does with its tasks: how they come in, wait, and end.

// ---- options --------------------------------------------------------------------------------------------------------

void pool_core::check_with(const task_options& o) const {
  if (o.priority < 0 || o.priority >= options_.priorities) {
    throw_invalid("task_options.priority", o.priority, "0 to " + std::to_string(options_.priorities - 1),
                  errc::invalid_priority);
  }
  if (o.timeout < duration::zero()) throw_invalid("task_options.timeout", o.timeout, "0 or more");
  if (o.delay < duration::zero()) throw_invalid("task_options.delay", o.delay, "0 or more");
}

void pool_core::prepare_with(pool_task& t, const task_options& o) {
  t.priority = static_cast<std::uint16_t>(o.priority);
  if (is_plain_ && is_plain(o)) return;
  t.extras_ = new task_extras{*this, t};
  task_extras& x = *t.extras_;
  x.timeout = o.timeout == duration::zero() ? options_.timeout : o.timeout;
  x.deadline = o.deadline;
  x.delay = o.delay;
  x.retry = o.retry.attempts == 0 ? options_.retry : o.retry;
  x.choose_group(o.group);
  if (o.name.empty()) return;
  const std::lock_guard lock{mutex_};
  x.name = &names_.of(o.name);
}

void pool_core::prepare_for_handle(pool_task& t, const task_options& o) {
  prepare(t, o);
  add_ref();
  t.home_ = this;
}

// ---- in -------------------------------------------------------------------------------------------------------------

/// The time, read only where nobody has done so a moment ago: workers read it once per turn.
[[gnu::always_inline]] inline time_point pool_core::fresh_now() noexcept {
  if (!crew_.is_on_the_move() && pool_turn::needs_time(*this)) coarse_now_ = time_->now();
  return coarse_now_;
}

/// Makes room if the options say so and it can be made.
[[gnu::always_inline]] inline int pool_core::refusal(const pool_task& t) noexcept {
  if (mode_ != stop_mode{}) return static_cast<int>(errc::stopped);
  if (backlog_.has_room()) [[likely]]
    return pool_task::no_code;
  if (backlog_.has_room(crew_.free()) || make_room(t.priority)) return pool_task::no_code;
  return static_cast<int>(errc::queue_full);
}

/// Inline, as it is half of what handing over an operation costs.
[[gnu::always_inline]] inline void pool_core::accept(pool_task& t) noexcept {
  t.id_ = ++next_id_;
  ++counts_.report.submitted;
  if (t.extras_ != nullptr || t.is_held_) return accept_with_extras(t);
  backlog_.add(t, fresh_now());
  if (crew_.first_idle() != nullptr) wake_one();
}

bool pool_core::post(pool_task& t) noexcept {
  const change c{*this};
  if (refusal(t) != pool_task::no_code) {
    ++counts_.rejected;
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
  const bool blocks_all = would_block_all(w);
  attach(w, t.waiters_);
  if (blocks_all) {
    refuse(t, pool_task::deadlock);
  } else if (const int code = refusal(t); code == pool_task::no_code) {
    accept(t);
  } else if (code == static_cast<int>(errc::queue_full) && options_.on_overflow == overflow::wait) {
    t.is_held_ = true;
    accept(t);
  } else {
    refuse(t, code);
  }
}

bool pool_core::make_room(int priority) noexcept {
  pool_task* t = backlog_.victim(priority);
  if (t == nullptr) return false;
  backlog_.remove(*t);
  ++counts_.evicted;
  end(*t, task_state::failed, static_cast<int>(errc::evicted), nullptr);
  return true;
}

void pool_core::accept_with_extras(pool_task& t) noexcept {
  task_extras* x = t.extras_;
  if (x != nullptr) {
    if (x->retry.budget != nullptr) x->retry.budget->pay_in();
    groups_.join(*x);
    if (x->delay > duration::zero() && !t.is_held_) {
      const time_point now = time_->now();
      return delay(t, now, std::min(saturating_add(now, x->delay), x->deadline));
    }
    if (x->deadline != time_point::max()) x->alarm.arm(x->deadline);
  }
  if (t.is_held_) {
    backlog_.hold(t, time_->now());
  } else {
    queue(t);
  }
}

void pool_core::refuse(pool_task& t, int code) noexcept {
  ++counts_.rejected;
  end(t, code == static_cast<int>(errc::stopped) ? task_state::stopped : task_state::failed, code, nullptr);
}

void pool_core::queue(pool_task& t) noexcept {
  task_extras* x = t.extras_;
  const bool is_measured = x != nullptr && (x->name != nullptr || options_.observer != nullptr);
  if (is_measured) coarse_now_ = time_->now();
  const time_point now = is_measured ? coarse_now_ : fresh_now();
  if (x != nullptr) x->queued_at = now;
  backlog_.queue(t, now);
  wake_one();
}

void pool_core::admit_held() noexcept {
  while (backlog_.held() > 0 && backlog_.has_room(crew_.free())) {
    pool_task& t = backlog_.take_held(coarse_now_);
    if (task_extras* x = t.extras_; x != nullptr && x->delay > duration::zero()) {
      const time_point now = time_->now();
      delay(t, now, std::min(saturating_add(now, x->delay), x->deadline));
    } else {
      queue(t);
    }
  }
}

void pool_core::delay(pool_task& t, time_point now, time_point at) noexcept {
  backlog_.delay(t, now);
  t.extras_->alarm.arm(at);
}

// ---- out ------------------------------------------------------------------------------------------------------------

void pool_core::note_end(pool_task& t, task_state s, int code, std::exception_ptr e) noexcept {
  t.error_ = std::move(e);
  t.code_ = code;
  if (t.id_ != 0) {
    counts_.add_end(s);
    if (task_extras* x = t.extras_) {
      x->alarm.disarm();
      if (x->name != nullptr) ++(s == task_state::succeeded ? x->name->succeeded : x->name->failed);
    }
  }
  t.state_.store(s, std::memory_order_release);
}

/// Ends a task whose callable may still be there. Takes over a reference.
void pool_core::end(pool_task& t, task_state s, int code, std::exception_ptr e) noexcept {
  note_end(t, s, code, std::move(e));
  t.next_ended_ = ended_;
  ended_ = &t;
  ++undelivered_;
  has_something_to_carry_out_ = true;
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
  if (has_ended(t.state())) return false;
  if (t.state() == task_state::running) {
    t.cancel_requested_ = true;
    t.end_requested_.store(true, std::memory_order_release);
    if (t.is_long()) request_cancel(*t.worker_);
    return true;
  }
  backlog_.remove(t);
  end(t, task_state::cancelled, pool_task::aborted, nullptr);
  admit_held();
  check_drained();
  return true;
}

std::size_t pool_core::cancel_group(std::uint64_t group) noexcept {
  const change c{*this};
  std::size_t n = 0;
  for (pool_group_member* m = groups_.first(group); m != nullptr; m = m->next_in_group())
    n += cancel_locked(static_cast<task_extras&>(*m).alarm.task()) ? 1 : 0;
  return n;
}

task_event pool_core::event_of(const pool_task& t) const noexcept {
  const task_extras& x = *t.extras_;  // which each task has where there is an observer
  task_event e;
  e.id = t.id_;
  e.priority = t.priority;
  e.state = t.state();
  if (x.name != nullptr) e.name = x.name->name;
  e.group = x.group();
  e.attempt = x.attempts.load(std::memory_order_relaxed);
  if (e.attempt > 0) e.waited = x.started_at - x.queued_at;
  e.ran = x.ran;
  return e;
}

// ---- time -----------------------------------------------------------------------------------------------------------

void pool_core::time_is_up(pool_task& t, time_point now) noexcept {
  task_extras& x = *t.extras_;
  if (t.state() == task_state::running) {
    x.is_late = true;
    t.end_requested_.store(true, std::memory_order_release);
    if (t.is_long()) {
      request_cancel(*t.worker_);
    } else if (x.attempts.load(std::memory_order_relaxed) >= x.retry.attempts || now >= x.deadline) {
      tell_early(t);
    }
    return;
  }
  backlog_.remove(t);
  if (now >= x.deadline) {
    end(t, task_state::timed_out, static_cast<int>(errc::timed_out), nullptr);
    admit_held();
    check_drained();
    return;
  }
  if (x.deadline != time_point::max()) x.alarm.arm(x.deadline);
  queue(t);
}

/// Ends a task for its owner while its operation goes on regardless.
void pool_core::tell_early(pool_task& t) noexcept {
  ++counts_.overdue;
  t.is_told_ = true;
  t.add_ref();
  end(t, task_state::timed_out, static_cast<int>(errc::timed_out), nullptr);
}

// ---- one task and its worker ----------------------------------------------------------------------------------------

/// Looks at how an operation ended, with no lock held, as that may take user code.
void pool_core::examine(pool_worker& w, pool_task& t) noexcept {
  w.retry_ = w.was_aborted_ = w.is_fatal_ = false;
  if (w.error_) [[unlikely]] {
    try {
      std::rethrow_exception(w.error_);
    } catch (const std::system_error& e) {
      w.was_aborted_ = e.code() == net::error::operation_aborted;
    } catch (const fatal_error&) {
      w.is_fatal_ = options_.restart.is_fatal == nullptr;
    } catch (...) {
    }
    try {
      if (options_.restart.is_fatal != nullptr) w.is_fatal_ = options_.restart.is_fatal(w.error_);
      const task_extras* x = t.extras_;
      if (x != nullptr && x->attempts.load(std::memory_order_relaxed) < x->retry.attempts) {
        const auto e =
            w.was_aborted_ ? std::make_exception_ptr(std::system_error{make_error_code(errc::timed_out)}) : w.error_;
        w.retry_ = x->retry.retry_if == nullptr || x->retry.retry_if(e);
      }
    } catch (...) {  // a predicate that fails has not said yes
    }
  }
  if (!w.retry_) {
    t.is_dropped_ = true;
    t.drop_callable();
  }
}

/// The operation of `t` has ended, at coarse_now_ if it has extras. True if the worker is to release the task.
bool pool_core::finish(pool_worker& w, pool_task& t) noexcept {
  std::exception_ptr e = std::move(w.error_);
  w.error_ = nullptr;
  crew_.end(w, t.is_long());
  if (t.is_long()) loop_.remove_reason();
  w.current_ = nullptr;
  t.worker_ = nullptr;
  task_extras* x = t.extras_;
  if (x != nullptr) {
    x->alarm.disarm();
    x->ran = coarse_now_ - x->started_at;
    if (x->name != nullptr) x->name->ran.record(x->ran);
  }
  const bool is_late = x != nullptr && x->is_late;
  if (!e) {
    w.failures_ = 0;
  } else if (w.is_fatal_ && !resources_) {
    restarted(w, e);
  }
  if (t.is_told_) {
    check_drained();
    return true;
  }
  if (w.retry_ && try_again(t)) return false;

  task_state s = task_state::succeeded;
  int code = pool_task::no_code;
  if (e) {
    s = task_state::failed;
    if (w.was_aborted_ && is_late) {
      s = task_state::timed_out;
      code = static_cast<int>(errc::timed_out);
      e = nullptr;
    } else if (w.was_aborted_ && (t.cancel_requested_ || mode_ == stop_mode::cancel_all)) {
      s = task_state::cancelled;
      code = pool_task::aborted;
      e = nullptr;
    }
  }
  if (t.is_dropped_ && options_.observer == nullptr && (x == nullptr || x->group() == 0)) {
    note_end(t, s, code, std::move(e));
    deliver(t);
  } else {
    t.add_ref();
    end(t, s, code, std::move(e));
  }
  if (backlog_.held() > 0) admit_held();
  if (mode_ != stop_mode{}) check_drained();
  return true;
}

bool pool_core::try_again(pool_task& t) noexcept {
  task_extras& x = *t.extras_;
  if (t.cancel_requested_ || mode_ > stop_mode::drain) return false;
  const std::uint32_t failures = x.attempts.load(std::memory_order_relaxed);
  const time_point now = time_->now();
  const time_point at = saturating_add(now, x.retry.backoff.delay(failures, next_random(random_)));
  if (at >= x.deadline) return false;
  if (x.retry.budget != nullptr && !x.retry.budget->try_take()) return false;
  ++counts_.retries;
  x.is_late = false;
  t.end_requested_.store(false, std::memory_order_release);
  if (at <= now) {
    if (x.deadline != time_point::max()) x.alarm.arm(x.deadline);
    queue(t);
  } else {
    delay(t, now, at);
  }
  return true;
}

}  // namespace canigo::detail

namespace canigo {

using detail::pool_task;
using detail::pool_worker;

std::uint64_t task_context::id() const noexcept { return worker_->current_->id(); }

std::uint32_t task_context::attempt() const noexcept {
  const auto* x = worker_->current_->extras_;
  return x != nullptr ? x->attempts.load(std::memory_order_relaxed) : 1;
}

time_point task_context::deadline() const noexcept {
  const auto* x = worker_->current_->extras_;
  return x != nullptr ? x->due_at : time_point::max();
}

bool task_context::stop_requested() const noexcept {
  return worker_->current_->end_requested_.load(std::memory_order_acquire);
}

const net::any_io_executor& task_context::executor() const noexcept { return worker_->strand_->executor(); }

std::size_t task_context::worker() const noexcept { return worker_->index_; }

void* task_context::resource() const noexcept { return worker_->resource_; }

}  // namespace canigo
