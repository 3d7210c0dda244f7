#include "canigo/detail/pool_worker.hpp"

#include "canigo/detail/pool_core.hpp"
#include "canigo/detail/pool_turn.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <algorithm>
#include <mutex>
#include <tuple>
#include <utility>

namespace canigo::detail {

namespace {

/// How many turns of its strand an operation has to end in after its cancellation, before its caller is told without
/// it.
constexpr std::uint32_t turns_to_end = 32;

/// A worker's coroutine that is parked. It heeds no cancellation: the worker is woken instead.
class parked_worker : public suspended {
 public:
  explicit parked_worker(const net::any_io_executor& executor) noexcept : executor_{executor} {}
  using results = std::tuple<>;
  results take_results() noexcept { return {}; }
  void abandon() noexcept {}
  const net::any_io_executor& home_executor() const noexcept { return executor_; }

 protected:
  ~parked_worker() = default;

 private:
  const net::any_io_executor& executor_;
};

}  // namespace

pool_worker::pool_worker(pool_core& home, std::size_t index)
    : home_{&home},
      index_{index},
      strand_{worker_strand::make(home.executor(), this)},
      context_{*this},
      wake_{*this},
      hand_over_{*this},
      cancel_{*this},
      rest_{*this} {}

// ---- sleeping and waking --------------------------------------------------------------------------------------------

// A posted call holds a reference to the pool.
void pool_worker::wake_call::post() { worker->strand_->post(*this); }

void pool_worker::wake_call::resume() {
  struct release {
    pool_core* core;
    ~release() { core->release_ref(); }
  };
  const release at_the_end{worker->home_};
  worker->home_->woken(*worker);
}

void pool_worker::wake_call::destroy() noexcept { worker->home_->release_ref(); }

void pool_worker::hand_over_call::resume() {
  try {
    worker->strand_->dispatch(worker->wake_);
  } catch (...) {
    worker->home_->wake_later(*worker);
  }
}

void pool_worker::hand_over_call::post() { worker->wake_.post(); }

void pool_worker::hand_over_call::destroy() noexcept { worker->wake_.destroy(); }

void pool_core::wake(pool_worker& w) noexcept {
  has_something_to_carry_out_ = true;
  add_ref();
  if (hands_over_) {
    ready_.push(w.hand_over_);
  } else {
    w.next_wake_ = to_wake_;
    to_wake_ = &w;
  }
}

/// There was no memory to do so now.
void pool_core::wake_later(pool_worker& w) noexcept {
  const std::lock_guard lock{mutex_};
  w.next_wake_ = to_wake_;
  to_wake_ = &w;
  retry_soon();
}

void pool_core::to_idle(pool_worker& w) noexcept {
  // The one that worked last goes first, as its memory is warm and the others may lose their resources; but one that
  // would have to make a resource goes last.
  const bool goes_last = resources_ && w.resource_ == nullptr;
  crew_.sleep(w, !goes_last);
  if (w.resource_ != nullptr && resources_->idle_timeout != duration::max()) {
    w.idle_since_ = time_->now();
    if (!w.rest_.is_armed()) w.rest_.arm(saturating_add(w.idle_since_, resources_->idle_timeout));
  }
}

/// One signal per event: the worker leaves the list now, so that the next event wakes another one.
void pool_core::wake_one() noexcept {
  if (crew_member* m = crew_.first_idle()) {
    crew_.wake(*m);
    wake(static_cast<pool_worker&>(*m));
  }
}

void pool_core::wake_all() noexcept {
  while (crew_member* m = crew_.first_idle()) {
    static_cast<pool_worker&>(*m).rest_.disarm();
    wake_one();
  }
  for (const auto& w : workers_) {
    if (w->is(pool_worker::state::resting)) end_rest(*w);
  }
}

/// Puts a parked worker to sleep, unless there is a reason not to, noted under the same lock under which work comes in.
void pool_core::settle(pool_worker& w) noexcept {
  if (must_leave(w)) {
    leave(w);
  } else if (w.is(pool_worker::state::resting)) {
    return;
  } else if (!backlog_.queued().empty()) {
    wake(w);
  } else {
    to_idle(w);
  }
}

void pool_core::parked(pool_worker& w, suspended& s) noexcept {
  {
    const change c{*this};
    if (!context_gone_) {
      w.parked_ = &s;
      settle(w);
      if (w.is_retired_) wake(w);
      return;
    }
  }
  s.destroy();
}

net::awaitable<void> pool_core::park(pool_worker& w) {
  frame_room<256> room;
  co_await detail::park<>([this, &w, &room](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    parked(w, *make_suspended_in<parked_worker>(room, h, executor_));
  });
}

/// On the worker's strand, while its coroutine is parked.
void pool_core::woken(pool_worker& w) {
  pool_turn* turn = pool_turn::here();
  const int most = turn != nullptr ? turn->tasks_left : pool_turn::most_tasks;
  w.tasks_left_ = most;
  bool is_done = false;
  if (!resources_ && !w.is_retired_) {
    work_off(w, true);
    is_done = w.handed_ == nullptr && !w.is_retired_;
  }
  if (!is_done) {
    suspended* s = nullptr;
    {
      const std::lock_guard lock{mutex_};
      s = std::exchange(w.parked_, nullptr);
    }
    if (s != nullptr) s->resume();
  }
  // A long operation that has not suspended counts like a short one.
  if (turn != nullptr) turn->tasks_left -= std::max(1, most - w.tasks_left_);
}

// ---- coming and going -----------------------------------------------------------------------------------------------

void pool_core::resize(std::size_t concurrency) {
  if (concurrency < 1 || concurrency > 100'000) throw_invalid("concurrency", concurrency, "1 to 100000");
  std::vector<std::unique_ptr<pool_worker>> made;
  std::size_t first = 0;
  {
    const std::lock_guard lock{mutex_};
    first = workers_.size();
  }
  for (std::size_t i = first; i < concurrency; ++i) made.push_back(std::make_unique<pool_worker>(*this, i));

  std::vector<pool_worker*> to_spawn;
  to_spawn.reserve(concurrency);
  {
    const change c{*this};
    if (mode_ != stop_mode{}) return;
    workers_.reserve(concurrency);
    for (auto& w : made) {
      if (w->index_ == workers_.size()) workers_.push_back(std::move(w));
    }
    crew_.want(concurrency);
    for (std::size_t n = crew_.staying(); n > concurrency && crew_.first_idle() != nullptr; --n) wake_one();
    for (const auto& w : workers_) {
      if (!crew_.is_short()) break;
      if (!w->is(pool_worker::state::gone)) continue;
      crew_.join(*w);
      w->is_retired_ = false;
      to_spawn.push_back(w.get());
    }
    admit_held();
    end_hopeless_wait();
  }
  for (std::size_t i = 0; i < to_spawn.size(); ++i) {
    add_ref();
    try {
      spawn(*to_spawn[i]);
    } catch (...) {
      while (++i < to_spawn.size()) {
        add_ref();
        gone(*to_spawn[i]);
      }
      throw;
    }
  }
}

void pool_core::spawn(pool_worker& w) {
  life l{*this, w};
  w.strand_->spawn(resources_ ? main_with_resource(std::move(l)) : main(std::move(l)), w.signal_.slot());
}

bool pool_core::must_leave(const pool_worker&) const noexcept {
  return crew_.is_too_large() || mode_ >= stop_mode::finish_running ||
         (mode_ == stop_mode::drain && backlog_.size() == 0 && crew_.running() == 0);
}

void pool_core::leave(pool_worker& w) noexcept {
  w.rest_.disarm();
  w.is_retired_ = true;
  crew_.leave(w);
  end_hopeless_wait();
}

/// Whether there are fewer workers than are wanted, and nobody has told them to leave.
bool pool_core::is_short_of_workers() const noexcept {
  return crew_.is_short() && !context_gone_ &&
         (mode_ == stop_mode{} || (mode_ == stop_mode::drain && backlog_.size() > 0));
}

void pool_core::replace_workers() noexcept {
  for (;;) {
    pool_worker* w = nullptr;
    {
      const std::lock_guard lock{mutex_};
      if (!is_short_of_workers()) return;
      for (const auto& other : workers_) {
        if (other->is(pool_worker::state::gone)) w = other.get();
      }
      if (w == nullptr) return;
      crew_.join(*w);
      w->is_retired_ = false;
    }
    add_ref();
    try {
      spawn(*w);
    } catch (...) {
      return;  // its end has noted that it is missed
    }
  }
}

/// The coroutine of a worker has ended, or its frame was destroyed.
void pool_core::gone(pool_worker& w) noexcept {
  pool_task* cut_off = nullptr;
  {
    const change c{*this};
    if (w.is(pool_worker::state::running)) {
      cut_off = w.current_;
      w.error_ = nullptr;
      loop_.remove_reason();
    }
    w.rest_.disarm();
    w.current_ = nullptr;
    w.parked_ = nullptr;
    crew_.lose(w);
    // What it waited for has dropped it, or Asio had no memory to resume it.
    const bool is_missed = is_short_of_workers();
    if (is_missed) retry_soon();
    if (cut_off != nullptr && !cut_off->is_told_) {
      cut_off->add_ref();
      if (is_missed) {
        end(*cut_off, task_state::failed, pool_task::abandoned, nullptr);
      } else {
        end(*cut_off, task_state::stopped, static_cast<int>(errc::stopped), nullptr);
      }
    }
    check_closed();
  }
  if (cut_off != nullptr) cut_off->release_ref();
  if (w.resource_ != nullptr) resources_->discard(std::exchange(w.resource_, nullptr));
  release_ref();
}

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
  if (t.is_long()) loop_.add_reason(executor_);
  if (task_extras* x = t.extras_) {
    if (!clock_is_right) coarse_now_ = time_->now();
    x->started_at = coarse_now_;
    x->attempts.store(x->attempts.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (x->name != nullptr) {
      ++x->name->attempts;
      x->name->waited.record(x->started_at - x->queued_at);
    }
    x->due_at = std::min(saturating_add(x->started_at, x->timeout), x->deadline);
    if (x->due_at != time_point::max()) x->alarm.arm(x->due_at);
  }
  if (backlog_.held() > 0) admit_held();
  return &t;
}

pool_task* pool_core::take(pool_worker& w) noexcept { return take_next(w, true); }

[[gnu::always_inline]] inline void pool_core::call_now(pool_worker& w, pool_task& t) noexcept {
  if (options_.observer != nullptr) [[unlikely]]
    options_.observer->attempt_started(event_of(t));
  try {
    t.call(w.context_);
  } catch (...) {
    w.error_ = std::current_exception();
  }
}

void pool_core::call(pool_worker& w, pool_task& t) noexcept { call_now(w, t); }

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
    if (w.tasks_left_ > 0 && !w.is(pool_worker::state::resting) && !must_leave(w)) t = take_next(w, clock_is_right);
    if (is_parked) {
      if (t == nullptr) {
        settle(w);
      } else if (t->is_long()) {
        w.handed_ = t;
      }
    }
    if (t == nullptr && is_parked && pool_turn::is_of(*this)) {
      unlock_and_carry_out(true);
    } else {
      unlock();
    }
    if (done != nullptr) done->release_ref();
    if (t != nullptr) --w.tasks_left_;
    if (t == nullptr || t->is_long()) return t;
    call_now(w, *t);
    if (is_simple(w, *t)) [[likely]] {
      t->is_dropped_ = true;
      t->drop_callable();
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

net::awaitable<void> pool_core::main(life l) {
  pool_worker& w = l.worker();
  pool_task* done = nullptr;
  while (!w.is_retired_) {
    pool_task* t = std::exchange(w.handed_, nullptr);
    if (t == nullptr) t = work_off(w, false, std::exchange(done, nullptr));
    if (t == nullptr) {
      co_await park(w);
      continue;
    }
    if (options_.observer != nullptr) options_.observer->attempt_started(event_of(*t));
    try {
      co_await t->start(w.context_);
    } catch (...) {
      w.error_ = std::current_exception();
    }
    // Nothing of this operation is to reach the next one.
    co_await net::this_coro::reset_cancellation_state();
    co_await net::this_coro::throw_if_cancelled(true);
    done = t;
  }
}

// ---- cancelling what runs -------------------------------------------------------------------------------------------

void pool_worker::cancel_call::post() { worker->strand_->post(*this); }

void pool_worker::cancel_call::resume() {
  pool_core& core = *worker->home_;
  core.do_cancel(*worker);
  core.release_ref();
}

void pool_worker::cancel_call::destroy() noexcept { worker->home_->release_ref(); }

void pool_core::request_cancel(pool_worker& w) noexcept {
  w.cancel_serial_ = w.serial_;
  if (std::exchange(w.cancel_is_out_, true)) return;
  w.next_cancel_ = to_cancel_;
  to_cancel_ = &w;
  has_something_to_carry_out_ = true;
  add_ref();
}

/// On the worker's strand, where no operation can end and none can start meanwhile.
void pool_core::do_cancel(pool_worker& w) noexcept {
  const auto is_meant = [&] {
    return w.cancel_serial_ == w.serial_ && (w.is(pool_worker::state::running) || w.is(pool_worker::state::repairing));
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
  const task_extras& x = *t->extras_;
  if (x.attempts.load(std::memory_order_relaxed) < x.retry.attempts && time_->now() < x.deadline) return;
  if (++w.turns_ > turns_to_end) {
    tell_early(*t);
  } else {
    request_cancel(w);
  }
}

// ---- supervision ----------------------------------------------------------------------------------------------------

void pool_core::restarted(pool_worker& w, const std::exception_ptr& cause) noexcept {
  ++counts_.restarts;
  ++w.failures_;
  if (!restarts_.note(time_->now())) {
    if (mode_ < stop_mode::cancel_all) {
      if (!counts_.report.cause) counts_.report.cause = cause;
      apply_stop(stop_mode::cancel_all);
    }
    return;
  }
  random_ = random_ * 6364136223846793005u + 1442695040888963407u;
  rest(w, options_.restart.backoff.delay(w.failures_, random_));
}

void pool_core::rest(pool_worker& w, duration d) noexcept {
  if (d <= duration::zero()) return;
  crew_.rest(w);
  w.rest_.arm(saturating_add(time_->now(), d));
}

void pool_core::end_rest(pool_worker& w) noexcept {
  w.rest_.disarm();
  crew_.recover(w);
  if (w.parked_ != nullptr) wake(w);
}

pool_worker::rest_alarm::rest_alarm(pool_worker& w) noexcept
    : pool_alarm{*w.home_,
                 [](pool_core& c, pool_alarm& a) noexcept { c.rest_is_over(*static_cast<rest_alarm&>(a).worker); }},
      worker{&w} {}

/// Of a worker that waits to start again, or of a resource that nobody uses.
void pool_core::rest_is_over(pool_worker& w) noexcept {
  if (w.is(pool_worker::state::resting)) return end_rest(w);
  if (!w.is(pool_worker::state::idle) || w.resource_ == nullptr) return;
  const time_point at = saturating_add(w.idle_since_, resources_->idle_timeout);
  if (time_->now() < at) {
    w.rest_.arm(at);
  } else if (made_ > resources_->min_idle) {
    --made_;
    w.evict_ = true;
    crew_.wake(w);
    wake(w);
  }
}

}  // namespace canigo::detail
