// How the workers of a pool run operations.

#include "canigo/detail/base/random.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/error.hpp"

#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

namespace canigo::detail {

namespace {

/// How many turns of its strand an operation has to end in after its cancellation, before its caller is told without
/// it.
constexpr std::uint32_t turns_to_end = 32;

}  // namespace

// ---- running operations ---------------------------------------------------------------------------------------------

/// Inline, as is all else that a short operation passes through in work_off: the calls were a fifth of its price.
[[gnu::always_inline]] inline pool_task* pool_core::take_next(pool_worker& w, bool clock_is_right) noexcept {
  pool_task* first = backlog_.first(coarse_now_);
  if (first == nullptr) return nullptr;
  pool_task& t = *first;
  backlog_.begin(t);
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

[[gnu::always_inline]] inline void pool_core::call(pool_worker& w, pool_task& t) noexcept {
  if (options_.observer != nullptr) [[unlikely]]
    options_.observer->attempt_started(event_of(t));
  try {
    t.call(w.context_);
  } catch (...) {
    caught(w, t);
  }
}

/// Notes what an operation has just thrown, and what that counts as. Once it was asked to end, the exception is for
/// that, as `a || b` makes one of its own of a cancellation, and a channel an error.
void pool_core::caught(pool_worker& w, const pool_task& t) noexcept {
  w.error_ = std::current_exception();
  w.error_cause_ = t.end_cause();
}

/// Whether nothing has to be weighed at the end of a short operation.
[[gnu::always_inline]] inline bool pool_core::is_simple(const pool_worker& w, const pool_task& t) const noexcept {
  return !w.error_ && t.extras_ == nullptr;  // which is never so where there is an observer
}

/// What finish() comes down to then.
[[gnu::always_inline]] inline void pool_core::finish_simple(pool_worker& w, pool_task& t) noexcept {
  crew_.end(w, false);
  w.current_ = nullptr;
  w.failures_ = 0;
  ++counts_.report.succeeded;
  t.is_delivered_ = true;
  t.state_.store(task_state::succeeded, std::memory_order_release);
  if (!t.waiters_.empty()) ready_all(t.waiters_);
  if (backlog_.held() > 0) admit_held();
  if (mode_ != stop_mode{}) check_drained();
}

/// Ends `done`, then runs short operations until there are no more, a long one comes, or the loop is due for a turn.
/// Returns the long one; where the worker is parked, leaves it in handed_ or puts the worker to sleep.
pool_task* pool_core::work_off(pool_worker& w, bool is_parked, pool_task* done) {
  if (done != nullptr) examine(w, *done);
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
        settle(w);
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
    call(w, *t);
    if (is_simple(w, *t)) [[likely]] {
      t->is_dropped_ = true;
      mutex_.lock();
      finish_simple(w, *t);
      clock_is_right = false;
      done = t;
    } else {
      examine(w, *t);
      const time_point ended = time_->now();
      mutex_.lock();
      coarse_now_ = std::max(coarse_now_, ended);
      clock_is_right = true;
      done = finish(w, *t) ? t : nullptr;
    }
  }
}

/// What the coroutine of a worker does next, after it ran `done`. For step::work, `t` is the task.
[[gnu::always_inline]] inline pool_core::step pool_core::next_step(pool_worker& w, pool_task* done,
                                                                   pool_task*& t) noexcept {
  if (!resources_) {
    t = std::exchange(w.handed_, nullptr);
    if (t == nullptr && !w.is_retired_) t = work_off(w, false, done);
    return t != nullptr ? step::work : w.is_retired_ ? step::leave : step::rest;
  }
  const change c{*this};
  coarse_now_ = time_->now();
  if (!w.is_retired_ && (w.is(pool_worker::state::leaving) || must_leave())) leave(w);
  if (w.is_retired_) return step::leave;  // maybe since it was about to sleep, and whatever is wanted now
  if (w.evict_) {
    begin_care(w);
    return step::evict;
  }
  if (w.is(pool_worker::state::resting) || backlog_.queued().empty()) return step::rest;
  if (w.resource_ == nullptr || (resources_->has_check && !w.resource_is_proven_)) {
    begin_care(w);
    return step::prepare;
  }
  t = take_next(w, true);
  return step::work;
}

/// The coroutine of a worker. Without a resource it runs long operations only; see work_off.
net::awaitable<void> pool_core::main(life l) {
  pool_worker& w = l.worker();
  pool_task* done = nullptr;
  for (;;) {
    pool_task* t = nullptr;
    switch (next_step(w, std::exchange(done, nullptr), t)) {
      case step::leave:
        if (w.resource_ != nullptr) {
          const leaver reason{*this};
          co_await drop_resource(w);
        }
        co_return;
      case step::evict:
        co_await evict_resource(w);
        break;
      case step::prepare:
        co_await prepare_resource(w);
        break;
      case step::rest:
        co_await park(w);
        break;
      case step::work:
        if (t->is_long()) {
          if (options_.observer != nullptr) options_.observer->attempt_started(event_of(*t));
          w.strand_->begins(w.mark());
          try {
            co_await t->start(w.context_);
          } catch (...) {
            caught(w, *t);
          }
          // Nothing of this operation is to reach the next one.
          co_await net::this_coro::reset_cancellation_state();
          co_await net::this_coro::throw_if_cancelled(true);
        } else {
          call(w, *t);
        }
        if (!resources_) {
          done = t;
        } else if (const std::exception_ptr cause = w.error_; end_with_resource(w, *t)) {
          co_await mend_resource(w, cause, w.is_fatal_);
        }
        break;
    }
  }
}

/// Looks at how an operation ended, with no lock held, as that may take user code.
void pool_core::examine(pool_worker& w, pool_task& t) noexcept {
  w.retry_ = w.is_fatal_ = false;
  if (w.error_) [[unlikely]] {
    bool cancelled_itself = false;
    try {
      std::rethrow_exception(w.error_);
    } catch (const std::system_error& e) {
      cancelled_itself = w.error_cause_ == pool_task::cause::none && e.code() == net::error::operation_aborted;
    } catch (const fatal_error&) {
      w.is_fatal_ = options_.restart.is_fatal == nullptr;
    } catch (...) {
    }
    try {
      if (options_.restart.is_fatal != nullptr) w.is_fatal_ = options_.restart.is_fatal(w.error_);
      const task_extras* x = t.extras_;
      const task_state s = task_life::state_after_throw(w.error_cause_);
      if (x != nullptr && !x->is_last_attempt() && s != task_state::cancelled) {
        const auto e = s == task_state::failed
                           ? w.error_
                           : std::make_exception_ptr(std::system_error{make_error_code(errc::timed_out)});
        std::optional<duration> delay;
        if (x->retry.retry_if) {
          delay = x->retry.retry_if(e);
        } else if (!cancelled_itself) {
          delay = duration::zero();
        }
        w.retry_ = delay.has_value();
        w.least_delay_ = delay.value_or(duration::zero());
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
  if (t.is_long()) {
    release_loop();
    self_waits_.disown(w);
  }
  w.current_ = nullptr;
  t.worker_ = nullptr;
  task_extras* x = t.extras_;
  if (x != nullptr) {
    x->alarm.disarm();
    x->ran = coarse_now_ - x->started_at;
    if (x->name != nullptr) x->name->ran.record(x->ran);
  }
  if (!e) {
    w.failures_ = 0;
  } else if (w.is_fatal_ && !resources_) {
    restarted(w, e);
  }
  if (t.is_told_) {
    check_drained();
    return true;
  }
  if (w.retry_ && try_again(t, w.least_delay_)) return false;

  task_state s = task_state::succeeded;
  int code = pool_task::no_code;
  if (e) {
    s = task_life::state_after_throw(w.error_cause_);
    code = pool_task::code_of(s);
    if (code != pool_task::no_code) e = nullptr;
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

bool pool_core::try_again(pool_task& t, duration least_delay) noexcept {
  task_extras& x = *t.extras_;
  if (t.cancel_requested_ || mode_ > stop_mode::drain) return false;
  const time_point now = time_->now();
  const time_point at = x.again_at(now, next_random(random_), least_delay);
  if (at == time_point::max()) return false;
  if (x.retry.budget != nullptr && !x.retry.budget->try_take()) return false;
  ++counts_.retries;
  x.is_late = false;
  t.end_cause_.store(pool_task::cause::none, std::memory_order_release);
  if (at <= now) {
    if (x.deadline != time_point::max()) x.alarm.arm(x.deadline);
    queue(t);
  } else {
    delay_until(t, now, at);
  }
  return true;
}

// ---- cancelling what runs -------------------------------------------------------------------------------------------

void pool_core::request_cancel(pool_worker& w) noexcept {
  w.cancel_serial_ = w.serial_;
  if (std::exchange(w.cancel_is_out_, true)) return;
  post_soon(w.cancel_);
}

/// On the worker's strand, where no operation can end and none can start meanwhile.
void pool_core::do_cancel(pool_worker& w) noexcept {
  const auto is_meant = [&] {
    return w.cancel_serial_ == w.serial_ && (w.is(pool_worker::state::running) || w.is(pool_worker::state::repairing) ||
                                             (w.is(pool_worker::state::leaving) && w.is_overdue_));
  };
  bool emit = false;
  {
    const std::lock_guard lock{mutex_};
    emit = is_meant() && w.cancelled_serial_ != w.serial_;
    if (emit) {
      w.cancelled_serial_ = w.serial_;
      w.turns_ = 0;
    }
  }
  if (emit) {
    try {
      w.signal_.emit(net::cancellation_type::terminal);
    } catch (...) {
      const std::lock_guard lock{mutex_};
      w.cancelled_serial_ = 0;
    }
  }
  const change c{*this};
  w.cancel_is_out_ = false;
  if (!is_meant()) return;
  if (w.cancelled_serial_ != w.serial_) return request_cancel(w);
  pool_task* t = w.current_;
  if (t == nullptr || t->is_told_ || t->extras_ == nullptr || !t->extras_->is_late) return;
  if (!t->extras_->is_last_time(time_->now())) return;
  if (++w.turns_ > turns_to_end) {
    tell_early(*t);
  } else {
    request_cancel(w);
  }
}

}  // namespace canigo::detail
