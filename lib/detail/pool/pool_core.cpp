#include "canigo/detail/pool/pool_core.hpp"

#include "canigo/detail/pool/pool_turn.hpp"
#include "canigo/error.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace canigo::detail {

namespace {

constexpr std::size_t most_workers = 100'000;

const pool_core_options& checked(const pool_core_options& o) {
  const auto field = [&](const char* name) { return std::string{o.type}.append("_options.").append(name); };
  if (o.concurrency < 1 || o.concurrency > most_workers)
    throw_invalid(field("concurrency"), o.concurrency, "1 to 100000");
  if (o.priorities < 1 || o.priorities > wait_queue::max_priorities)
    throw_invalid(field("priorities"), o.priorities, "1 to 1024");
  if (o.queue_limit < 1) throw_invalid(field("queue_limit"), o.queue_limit, "1 or more");
  if (o.timeout <= duration::zero()) throw_invalid(field("timeout"), o.timeout, "more than 0");
  if (o.restart.limit > 10'000) throw_invalid(field("restart.limit"), o.restart.limit, "0 to 10000");
  if (o.restart.within <= duration::zero()) throw_invalid(field("restart.within"), o.restart.within, "more than 0");
  if (o.on_overflow < overflow::reject_new || o.on_overflow > overflow::wait) {
    throw_invalid(field("on_overflow"), static_cast<int>(o.on_overflow),
                  "reject_new, evict_oldest, evict_least_important, wait");
  }
  check(o.retry.backoff, field("retry.backoff"));
  check(o.restart.backoff, field("restart.backoff"));
  return o;
}

}  // namespace

pool_core* pool_core::open(const net::any_io_executor& executor, const pool_core_options& options,
                           std::unique_ptr<pool_resources> resources) {
  auto* core = new pool_core{executor, checked(options), std::move(resources)};
  try {
    core->resize(options.concurrency);
  } catch (...) {
    core->close();
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
      random_{static_cast<std::uint64_t>(time_->now().time_since_epoch().count())},
      restarts_{options.restart.limit, options.restart.within},
      grace_{*this, [](delivery& d, engine_alarm&) noexcept { static_cast<pool_core&>(d).grace_is_over(); }} {
  join();
}

pool_core::~pool_core() = default;

void pool_core::close() noexcept {
  request_stop(stop_mode::cancel_all, duration::max());
  release_ref();
}

// ---- after the lock -------------------------------------------------------------------------------------------------

void pool_core::carry_out(bool drain_goes_on) noexcept {
  if (ended_ == nullptr && !replaces_workers_) return hand_over(drain_goes_on);
  // What a task holds may reach for the context.
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

/// First destroys what the tasks held, and then tells the waiters, who may own what the tasks refer to.
void pool_core::tell_ended(pool_task* ended) noexcept {
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    if (!t->is_told_ && !std::exchange(t->is_dropped_, true)) t->drop_callable();
    if (options_.observer != nullptr && t->id_ != 0) options_.observer->task_ended(event_of(*t));
  }
  mutex_.lock();
  for (pool_task* t = ended; t != nullptr; t = t->next_ended_) {
    deliver(*t);
    --undelivered_;
  }
  check_closed();
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

// ---- the end of the context -----------------------------------------------------------------------------------------

/// A strand's executor would reach for its context when it goes, and so would the workers' strands.
void pool_core::let_go_of_context() noexcept {
  delivery::let_go_of_context();
  for (const auto& w : workers_) {
    w->strand_.reset();
    // What Asio has left there may know a strand, too.
    if (w->is(pool_worker::state::gone)) w->signal_.slot().clear();
  }
}

void pool_core::end_with_context() noexcept {
  suspended_list waiters;
  suspended_list workers;
  {
    const std::lock_guard lock{mutex_};
    context_gone_ = true;
    mode_ = stop_mode::cancel_all;
    const auto take_over = [&](pool_waiter_list& list) {
      while (pool_waiter_link* l = list.first()) {
        auto& w = static_cast<pool_waiter&>(*l);
        pool_waiter_list::remove(w);
        w.state_ = pool_waiter::state::fresh;
        waiters.push(w);
      }
    };
    while (pool_task* t = backlog_.take_any()) end_stopped(*t);
    for (pool_task* t = ended_; t != nullptr; t = t->next_ended_) take_over(t->waiters_);
    for (const auto& w : workers_) {
      w->rest_.disarm();
      self_waits_.disown(*w);  // destroyed below, and before the operation that they are of
      if (w->current_ != nullptr) take_over(w->current_->waiters_);
      if (w->parked_ != nullptr) workers.push(*std::exchange(w->parked_, nullptr));
    }
    groups_.for_each_list(take_over);
    take_over(closed_waiters_);
    waiters.append(take_all());
    grace_.disarm();
  }
  // Their frames may hold other tasks, handles, and the handle of this.
  while (suspended* s = waiters.pop()) s->destroy();
  while (suspended* s = workers.pop()) s->destroy();
  mutex_.lock();
  carry_out(false);
  const std::lock_guard lock{mutex_};
  let_go_of_context();
}

}  // namespace canigo::detail
