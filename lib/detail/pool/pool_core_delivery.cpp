// What is decided under the lock of a pool is carried out after it.

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_turn.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

/// Where the drain that calls this goes on, it finds itself who is ready.
void pool_core::unlock_and_carry_out(bool drain_goes_on) noexcept {
  has_something_to_carry_out_ = false;
  const bool drain_now = !ready_.empty() && !drain_posted_ && !drain_goes_on;
  const bool rest_now = loop_.is_over();
  if (!drain_now && to_wake_ == nullptr && to_cancel_ == nullptr && ended_ == nullptr && foreign_.empty() &&
      !rest_now && !replaces_workers_) {
    mutex_.unlock();
    return;
  }
  if (context_gone_) return unlock_without_context();
  const context_visit visit{visits()};
  if (!visit.lasts()) {
    leave_to_context();
    mutex_.unlock();
    return;
  }
  const bool replace_now = std::exchange(replaces_workers_, false);
  if (drain_now) {
    drain_posted_ = true;
    add_ref();
  }
  pool_worker* wakes = std::exchange(to_wake_, nullptr);
  pool_worker* cancels = std::exchange(to_cancel_, nullptr);
  pool_task* ended = std::exchange(ended_, nullptr);
  suspended_list foreign{std::move(foreign_)};
  const net::any_io_executor until_all_is_posted = loop_.let_go();
  mutex_.unlock();

  while (pool_worker* w = wakes) {
    wakes = w->next_wake_;
    post_or_keep(w->wake_, visit, [&] { w->next_wake_ = std::exchange(to_wake_, w); });
  }
  while (pool_worker* w = cancels) {
    cancels = w->next_cancel_;
    post_or_keep(w->cancel_, visit, [&] { w->next_cancel_ = std::exchange(to_cancel_, w); });
  }
  if (drain_now) post_drain();
  while (suspended* s = foreign.pop()) {
    pool_core& home = *static_cast<pool_waiter*>(s)->home_;
    home.post_or_keep(*s, visit, [&] { home.foreign_.push(*s); });
  }
  if (ended != nullptr) carry_out_ended(ended);
  if (replace_now) replace_workers();
}

/// Posts what holds a reference to this, or keeps it for when there is memory again.
template <class Function>
void pool_core::post_or_keep(suspended& s, const context_visit& visit, Function&& keep) noexcept {
  if (visit.lasts()) {
    try {
      return s.post();
    } catch (...) {
      const std::lock_guard lock{mutex_};
      if (!context_gone_) {
        keep();
        retry_soon();
        return;
      }
    }
  }
  s.destroy();  // what was called at once has destroyed the context
}

/// Nothing is posted any more; what was to be called is told so, as if the executor had dropped it.
void pool_core::unlock_without_context() noexcept {
  pool_worker* wakes = std::exchange(to_wake_, nullptr);
  pool_worker* cancels = std::exchange(to_cancel_, nullptr);
  pool_task* ended = std::exchange(ended_, nullptr);
  suspended_list lost{std::move(ready_)};
  lost.append(std::move(foreign_));
  mutex_.unlock();
  while (suspended* s = lost.pop()) s->destroy();
  for (pool_worker* w = wakes; w != nullptr; w = w->next_wake_) w->wake_.destroy();
  for (pool_worker* w = cancels; w != nullptr; w = w->next_cancel_) w->cancel_.destroy();
  carry_out_ended(ended);
}

/// Destroys what the tasks held, and only then tells those that wait for them: they may own what it refers to.
void pool_core::carry_out_ended(pool_task* ended) noexcept {
  if (ended == nullptr) return;
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

void pool_core::post_drain() noexcept {
  try {
    drain_.post();
  } catch (...) {
    bool has_context = false;
    {
      const std::lock_guard lock{mutex_};
      has_context = !context_gone_;
      if (has_context) {
        drain_posted_ = false;
        if (!ready_.empty()) retry_soon();
      }
    }
    if (!has_context) return drain_.destroy();
    release_ref();
  }
}

void pool_core::retry_soon() noexcept {
  if (!retry_.is_armed()) retry_.arm(time_->now() + retry_after);
}

void pool_core::post_again() noexcept {
  has_something_to_carry_out_ = true;
  replaces_workers_ = is_short_of_workers();
}

void pool_core::drain::post() { post_resumption(core->executor_, *this, fixed_allocator<void, 160>{memory}); }

void pool_core::drain::resume() { core->run_drain(); }

void pool_core::drain::destroy() noexcept {
  // The executor dropped what was posted to it, so nobody will be resumed there.
  suspended_list lost;
  {
    const std::lock_guard lock{core->mutex_};
    core->drain_posted_ = false;
    lost.append(std::move(core->ready_));
  }
  while (suspended* s = lost.pop()) s->destroy();
  core->release_ref();
}

/// One turn of the loop: callers are resumed, and workers called, on this thread.
///
/// Where several are there, or come in meanwhile, another drain is posted before the next one is called: where other
/// threads run the loop they shall help, as a handler or an operation may take its time.
void pool_core::run_drain() {
  struct end {
    pool_core& core;
    ~end() { core.end_drain(); }
  };
  const end at_the_end_or_a_throw{*this};
  pool_turn turn{*this};
  // An executor that calls at once what it is to call later has no other threads that could help.
  const bool may_have_help = !posting::is_under_way(drain_);
  for (int i = 0; i < resumptions_per_turn && turn.tasks_left > 0; ++i) {
    suspended* s = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) drain_posted_ = false;
      s = ready_.pop();
      if (!ready_.empty() && !drain_posted_ && may_have_help) {
        call_helper = true;
        drain_posted_ = true;
        add_ref();
      }
    }
    if (s == nullptr) return;
    if (call_helper) post_drain();
    s->resume();
  }
}

void pool_core::end_drain() noexcept {
  {
    const change c{*this};
    has_something_to_carry_out_ = !ready_.empty();
  }
  release_ref();
}

}  // namespace canigo::detail
