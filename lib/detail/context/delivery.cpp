#include "canigo/detail/context/delivery.hpp"

#include "canigo/detail/context/loop_inbox.hpp"
#include "canigo/detail/context/suspend.hpp"
#include "canigo/detail/stealing/stealing_service.hpp"

#include <asio/io_context.hpp>

#include <mutex>
#include <utility>

namespace canigo::detail {

delivery::delivery(const net::any_io_executor& executor)
    : counted_member{executor},
      runs_on_io_context_{target_of<net::io_context::executor_type>(executor) != nullptr ||
                          pumps_of(executor) != nullptr},
      pumps_{pumps_of(executor)},
      executor_{executor},
      drain_{*this},
      retry_{*this, [](delivery& d, engine_alarm&) noexcept {
               d.is_due_ = true;
               d.retry();
             }} {}

void delivery::hand_over(bool drain_goes_on) noexcept {
  is_due_ = false;
  const bool drain_now = !ready_.empty() && !is_drain_posted_ && !drain_goes_on;
  const bool posts_more = !calls_.empty() || !foreign_.empty() || !pushed_.empty();
  if (!drain_now && !posts_more && !loop_.is_over()) return mutex_.unlock();
  if (context_gone_) return hand_over_without_context();
  const context_visit visit{visits()};
  if (!visit.lasts()) {
    leave_to_context();
    mutex_.unlock();
    return;
  }
  if (drain_now) {
    is_drain_posted_ = true;
    add_ref();
  }
  // After the unlock, `this` stays alive because each post holds a reference to it. A post that has failed keeps its
  // reference, too.
  if (!posts_more && !loop_.is_over()) [[likely]] {
    mutex_.unlock();
    return post_drain();
  }
  stealing_service* const pumps = pumps_;
  suspended_list pushed{std::move(pushed_)};
  if (calls_.empty() && foreign_.empty() && !loop_.is_over()) {
    mutex_.unlock();
    if (drain_now) post_drain();
    return push_each(pumps, pushed);
  }
  const net::any_io_executor until_all_is_posted = loop_.let_go();
  if (!posts_more) {
    mutex_.unlock();
    if (drain_now) post_drain();
    return;
  }
  suspended_list calls{std::move(calls_)};
  suspended_list foreign{std::move(foreign_)};
  mutex_.unlock();
  post_each(calls, calls_, visit);
  if (drain_now) post_drain();
  post_each(foreign, foreign_, visit);
  push_each(pumps, pushed);
}

void delivery::push_each(stealing_service* pumps, suspended_list& list) noexcept {
  while (suspended* s = list.pop()) pumps->push(*s, false);
}

/// Like hand_over(), but after the end of the engine's context. That context does not resume callers any more, so its
/// callers are destroyed. A caller that belongs to another context is still posted to that context.
void delivery::hand_over_without_context() noexcept {
  suspended_list lost{take_ready()};
  lost.append(std::move(pushed_));
  lost.append(std::move(calls_));
  suspended_list foreign{std::move(foreign_)};
  add_ref();
  mutex_.unlock();
  while (suspended* s = lost.pop()) s->destroy();
  while (suspended* s = foreign.pop()) {
    try {
      s->post_across();
    } catch (...) {
      s->destroy();
    }
  }
  release_ref();
}

/// Posts each caller to the executor of its handler. If there is no memory for a post, the caller is moved to the list
/// `home`, and is posted later. An executor may run the posted function immediately, and that function may destroy the
/// context. Then the remaining callers are destroyed.
void delivery::post_each(suspended_list& list, suspended_list& home, const context_visit& visit) noexcept {
  while (suspended* s = list.pop()) {
    if (visit.lasts()) {
      try {
        s->post_across();
        continue;
      } catch (...) {
        if (keep(*s, home)) continue;
      }
    }
    s->destroy();
  }
}

bool delivery::keep(suspended& s, suspended_list& home) noexcept {
  const std::lock_guard lock{mutex_};
  if (context_gone_) return false;
  home.push(s);
  retry_soon();
  return true;
}

void delivery::post_later(suspended& call) noexcept {
  const std::lock_guard lock{mutex_};
  calls_.push(call);
  retry_soon();
}

void delivery::retry_soon() noexcept {
  if (!retry_.is_armed()) retry_.arm(time_->now() + retry_after);
}

void delivery::post_drain() noexcept {
  try {
    drain_.post();
  } catch (...) {
    bool has_context = false;
    {
      const std::lock_guard lock{mutex_};
      has_context = !context_gone_;
      if (has_context) {
        is_drain_posted_ = false;
        if (!ready_.empty()) retry_soon();
      }
    }
    if (!has_context) return drain_.destroy();
    release_ref();
  }
}

void delivery::drain::post() {
  if (owner->pumps_ != nullptr) return owner->pumps_->push(*this, false);
  const fixed_allocator<void, 160> allocator{memory};
  using executor_type = net::io_context::executor_type;
  const auto* io = owner->runs_on_io_context_ ? owner->executor_.target<executor_type>() : nullptr;
  if (io != nullptr) {
    if (loop_inbox* const inbox = loop_inbox::watched(*io)) return inbox->push(*this);
    post_resumption(*io, *this, allocator);
  } else {
    post_resumption(owner->executor_, *this, allocator);
  }
}

void delivery::drain::resume() {
  struct end {
    delivery& d;
    ~end() { d.end_turn(); }
  };
  const end at_the_end_or_a_throw{*owner};
  owner->run_turn();
}

/// Called if the executor destroys the drain (the posted function that resumes ready callers) without running it. The
/// executor does not resume the callers any more, so they are destroyed.
void delivery::drain::destroy() noexcept {
  suspended_list lost;
  {
    const std::lock_guard lock{owner->mutex_};
    owner->is_drain_posted_ = false;
    lost.append(owner->take_ready());
  }
  while (suspended* s = lost.pop()) s->destroy();
  owner->release_ref();
}

/// Resumes ready callers. A resumed caller may run for long. So if more callers are ready, another drain (a posted call
/// of this function) is posted first. Another thread that runs the loop can then resume them.
void delivery::resume_ready(const int* work_left) {
  // If this function runs inside the call that posted it, the executor runs each posted function immediately, on the
  // posting thread. A further post would then bring no help from another thread, so none is made.
  const bool may_have_help = !posting::is_under_way(drain_);
  for (int i = 0; i < resumptions_per_turn && (work_left == nullptr || *work_left > 0); ++i) {
    if (i > 0 && !has_ready_.load(std::memory_order_relaxed)) return;
    suspended* s = nullptr;
    bool call_helper = false;
    {
      const std::lock_guard lock{mutex_};
      if (i == 0) is_drain_posted_ = false;
      s = ready_.pop();
      if (ready_.empty()) {
        has_ready_.store(false, std::memory_order_relaxed);
      } else if (!is_drain_posted_ && may_have_help) {
        call_helper = true;
        is_drain_posted_ = true;
        add_ref();
      }
    }
    if (s == nullptr) return;
    if (call_helper) post_drain();
    s->resume();
  }
}

void delivery::end_turn() noexcept {
  if (has_ready_.load(std::memory_order_relaxed)) {
    const change c{*this};
    is_due_ = true;
  }
  release_ref();
}

suspended_list delivery::take_ready() noexcept {
  has_ready_.store(false, std::memory_order_relaxed);
  return std::move(ready_);
}

suspended_list delivery::take_all() noexcept {
  retry_.disarm();
  suspended_list all{take_ready()};
  all.append(std::move(pushed_));
  all.append(std::move(foreign_));
  all.append(std::move(calls_));
  return all;
}

void delivery::let_go_of_context() noexcept {
  loop_.give_up();
  executor_ = {};
}

}  // namespace canigo::detail
