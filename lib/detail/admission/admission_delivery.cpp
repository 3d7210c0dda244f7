// How an engine hands over to those who are ready.

#include "canigo/detail/admission/admission.hpp"

#include <mutex>
#include <utility>

namespace canigo::detail {

void admission::unlock_and_deliver(bool drain_now) noexcept {
  if (context_gone_) return unlock_without_context();
  const context_visit visit{visits()};
  if (!visit.lasts()) {
    leave_to_context();
    mutex_.unlock();
    return;
  }
  if (drain_now) {
    drain_posted_.store(true, std::memory_order_relaxed);
    add_ref();
  }
  if (foreign_.empty() && !loop_.is_over()) [[likely]] {
    mutex_.unlock();
    // From here on `this` lives by the reference that the drain holds.
    if (drain_now) post_drain();
    return;
  }
  suspended_list foreign{std::move(foreign_)};
  const net::any_io_executor until_all_is_posted = loop_.let_go();
  mutex_.unlock();

  // From here on `this` lives by the references that the drain and the foreign waiters hold.
  if (drain_now) post_drain();
  while (suspended* s = foreign.pop()) {
    admission& home = *static_cast<waiter*>(s)->home_;
    if (!visit.lasts()) {  // a handler that was called at once has destroyed the context
      s->destroy();
      continue;
    }
    try {
      s->post();
    } catch (...) {
      if (!home.keep_for_retry(*s)) s->destroy();
    }
  }
}

/// Who asks now goes, as if the executor had dropped it; but another context calls its own.
void admission::unlock_without_context() noexcept {
  suspended_list lost{std::move(ready_)};
  suspended_list foreign{std::move(foreign_)};
  add_ref();
  mutex_.unlock();
  while (suspended* s = lost.pop()) s->destroy();
  while (suspended* s = foreign.pop()) {
    try {
      s->post();
    } catch (...) {
      s->destroy();
    }
  }
  release_ref();
}

void admission::post_drain() noexcept {
  try {
    drain_.post();
  } catch (...) {
    bool has_context = false;
    {
      const std::lock_guard lock{mutex_};
      has_context = !context_gone_;
      if (has_context) {
        drain_posted_.store(false, std::memory_order_relaxed);
        if (!ready_.empty()) retry_soon();
      }
    }
    // Who asks when the context has gone goes as well.
    if (!has_context) return drain_.destroy();
    release_ref();
  }
}

bool admission::keep_for_retry(suspended& s) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return false;
  foreign_.push(s);
  retry_soon();
  return true;
}

void admission::retry_soon() noexcept {
  if (!retrying_) {
    retrying_ = true;
    add_ref();
  }
  wake_at(wake_armed_ ? wake_time_ : time_point::max());
}

admission::drain::drain(admission& a) noexcept : owner{&a} {}

void admission::drain::post() {
  const fixed_allocator<void, 160> allocator{memory};
  using executor_type = net::io_context::executor_type;
  const auto* io = owner->runs_on_io_context_ ? owner->executor_.target<executor_type>() : nullptr;
  if (io != nullptr) {
    post_resumption(*io, *this, allocator);
  } else {
    post_resumption(owner->executor_, *this, allocator);
  }
}

void admission::drain::resume() { owner->run_drain(); }

void admission::drain::destroy() noexcept {
  // The executor dropped what was posted to it, so nobody will be resumed there.
  suspended_list lost;
  {
    const std::lock_guard lock{owner->mutex_};
    owner->drain_posted_.store(false, std::memory_order_relaxed);
    lost.append(std::move(owner->ready_));
  }
  while (suspended* s = lost.pop()) s->destroy();
  owner->release_ref();
}

void admission::run_drain() {
  struct turn {
    admission& a;
    ~turn() { a.release_ref(); }
  };
  const turn until_the_end_or_a_throw{*this};
  // An executor that calls at once what it is to call later has no other threads that could help.
  const bool may_have_help = !posting::is_under_way(drain_);
  for (int i = 0; i < resumptions_per_turn; ++i) {
    // Where it may have help, a drain is posted as long as somebody is ready.
    if (i > 0 && may_have_help && !drain_posted_.load(std::memory_order_relaxed)) return;
    waiter* w = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) drain_posted_.store(false, std::memory_order_relaxed);
      w = static_cast<waiter*>(ready_.front());
      if (w == nullptr) return;
      if (i > 0 && w->passes_loop_ && drain_posted_.load(std::memory_order_relaxed)) return;
      ready_.pop();
      if (!ready_.empty() && !drain_posted_.load(std::memory_order_relaxed) && may_have_help) {
        call_helper = true;
        drain_posted_.store(true, std::memory_order_relaxed);
        add_ref();
      }
    }
    if (call_helper) post_drain();
    w->resume();
  }
  const change whoever_is_left{*this};
}

}  // namespace canigo::detail
