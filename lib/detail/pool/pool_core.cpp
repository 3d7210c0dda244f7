#include "canigo/detail/pool/pool_core.hpp"

#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/detail/pool/pool_worker.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

pool_core* pool_core::open(const net::any_io_executor& executor, const pool_core_options& options,
                           std::unique_ptr<pool_resources> resources) {
  auto* core = new pool_core{executor, checked(options), std::move(resources)};
  try {
    core->resize(options.concurrency);
  } catch (...) {
    core->request_stop(stop_mode::cancel_all, duration::max());
    core->release_ref();
    throw;
  }
  return core;
}

pool_core::pool_core(const net::any_io_executor& executor, const pool_core_options& options,
                     std::unique_ptr<pool_resources> resources)
    : delivery{executor},
      backlog_{options.priorities, options.queue_limit, options.on_overflow},
      options_{options},
      is_plain_{options.timeout == duration::max() && options.retry.attempts <= 1 && options.observer == nullptr},
      resources_{std::move(resources)},
      crew_{resources_ != nullptr},
      random_{static_cast<std::uint64_t>(time_->now().time_since_epoch().count())},
      restarts_{options.restart.limit, options.restart.within},
      grace_{*this,
             [](delivery& d, engine_alarm&) noexcept {
               auto& core = static_cast<pool_core&>(d);
               core.counts_.report.escalated = core.crew_.running();
               core.apply_stop(stop_mode::cancel_all);
             }},
      flows_{*this} {
  join();
}

pool_core::~pool_core() = default;

void pool_core::carry_out(bool drain_goes_on) noexcept {
  if (ended_ == nullptr && !replaces_workers_) return hand_over(drain_goes_on);
  // `here` keeps the context alive, because a callable may use the context.
  const context_visit here = context_gone_ ? context_visit{} : context_visit{visits()};
  if (!here.lasts() && !context_gone_) {
    leave_to_context();
    return hand_over(drain_goes_on);
  }
  pool_task* ended = std::exchange(ended_, nullptr);
  const bool replace_now = std::exchange(replaces_workers_, false);
  hand_over(drain_goes_on);
  if (ended != nullptr) tell_ended(ended);
  if (replace_now) replace_workers();
}

/// Destroys the callables of the ended tasks, and only then notifies their waiters. A waiter may own objects to which a
/// callable refers.
void pool_core::tell_ended(pool_task* ended) noexcept {
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    if (!t->is_told_) t->drop();
    if (options_.observer != nullptr && t->id_ != 0) options_.observer->task_ended(t->event());
  }
  mutex_.lock();
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    deliver(*t);
    --undelivered_;
  }
  check_stop();
  unlock();
  while (pool_task* t = ended) {
    ended = t->next_ended_;
    t->release_ref();
  }
}

void pool_core::run_turn() {
  pool_turn turn{*this};
  resume_ready(&turn.tasks_left);
}

void pool_core::retry() noexcept { replaces_workers_ = is_short_of_workers(); }

/// Releases the members that use the context: the executors of the pool and of the workers' strands. Their destructors
/// use the context, so they must run while it exists.
void pool_core::let_go_of_context() noexcept {
  delivery::let_go_of_context();
  for (const auto& w : workers_) {
    w->strand_.reset();
    // Asio may have left a handler in the worker's cancellation slot. The handler owns a strand, which must not outlive
    // the context.
    if (w->is(pool_worker::state::gone)) w->signal_.slot().clear();
  }
}

void pool_core::end_with_context() noexcept {
  suspended_list waiters;
  suspended_list workers;
  pool_task* ended = nullptr;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    stop_.raise(stop_mode::cancel_all);
    const auto take_over = [&](pool_waiter_list& list) {
      while (pool_waiter_link* l = list.first()) {
        auto& w = static_cast<pool_waiter&>(*l);
        pool_waiter_list::remove(w);
        w.state_ = pool_waiter::state::fresh;
        waiters.push(w);
      }
    };
    while (pool_task* t = backlog_.take_any()) end(*t, task_state::stopped, pool_task::code_of(task_state::stopped));
    for (pool_task* t = ended_; t != nullptr; t = t->next_ended_) take_over(t->waiters_);
    for (const auto& w : workers_) {
      w->rest_.disarm();
      // Makes the pool forget that the worker's operation waits in it. The waiters of that operation are destroyed
      // below, before the operation itself.
      self_waits_.disown(*w);
      if (w->current_ != nullptr) take_over(w->current_->waiters_);
      if (w->parked_ != nullptr) workers.push(*std::exchange(w->parked_, nullptr));
    }
    groups_.for_each_list(take_over);
    take_over(closed_waiters_);
    waiters.append(take_all());
    grace_.disarm();
    if (backlog_.has_flows()) flows_.watch();
    // Callables may use the context. So this thread takes the ended tasks, and destroys their callables before the
    // context is destroyed. Another thread might destroy the callables only after the context.
    ended = std::exchange(ended_, nullptr);
    replaces_workers_ = false;
  }
  tell_ended(ended);
  // The waiting coroutines are destroyed without the lock, because their frames may own other tasks, handles, and the
  // handle of this pool.
  while (suspended* s = waiters.pop()) s->destroy();
  while (suspended* s = workers.pop()) s->destroy();
  const std::lock_guard lock{mutex_};
  let_go_of_context();
}

}  // namespace canigo::detail
