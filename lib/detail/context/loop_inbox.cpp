#include "canigo/detail/context/loop_inbox.hpp"

#include "canigo/detail/base/relax.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace canigo::detail {

namespace {

/// The number of destroyed inboxes. If it changes, a thread drops its cached pointers to inboxes, because a new loop
/// may have the address of a destroyed one.
std::atomic<std::uint64_t> inboxes_ended{0};

// The limits of look_out(), as numbers of checks; each check takes about 40 cycles. look_out() checks an empty inbox
// most_looks times. When callers are in the inbox, look_out() ends after calm_looks checks without a new caller, and
// after most_calming checks at the latest.
constexpr int most_looks = 30;
constexpr int calm_looks = 40;
constexpr int most_calming = 256;

struct remembered {
  const net::io_context* loop = nullptr;
  loop_inbox* inbox = nullptr;
  std::uint64_t ended_before = 0;
};

/// Returns this thread's cached entry for the loop. A cache is needed because Asio searches its services under a lock
/// of the context.
remembered& slot_of(const net::io_context& loop) noexcept {
  thread_local std::array<remembered, 8> slots;
  return slots[reinterpret_cast<std::uintptr_t>(&loop) / sizeof(net::io_context) % slots.size()];
}

}  // namespace

net::execution_context::id loop_inbox::id;

loop_inbox::loop_inbox(net::execution_context& loop)
    : service{loop}, executor_{static_cast<net::io_context&>(loop).get_executor()} {}

loop_inbox::~loop_inbox() { inboxes_ended.fetch_add(1, std::memory_order_release); }

loop_inbox& loop_inbox::of(net::io_context& loop) {
  if (loop_inbox* const known = find(loop)) return *known;
  return net::use_service<loop_inbox>(loop);
}

loop_inbox* loop_inbox::find(net::io_context& loop) {
  remembered& r = slot_of(loop);
  const auto now = inboxes_ended.load(std::memory_order_acquire);
  if (r.loop == &loop && r.ended_before == now) return r.inbox;
  if (!net::has_service<loop_inbox>(loop)) return nullptr;
  r = {&loop, &net::use_service<loop_inbox>(loop), now};
  return r.inbox;
}

std::atomic<bool> loop_inbox::any_looks_out{false};

loop_inbox* loop_inbox::find_watched(const net::io_context::executor_type& executor) noexcept {
  if (executor.running_in_this_thread()) return nullptr;
  loop_inbox* const inbox = find(executor.context());
  return inbox != nullptr && inbox->has_lookout() ? inbox : nullptr;
}

void loop_inbox::push(suspended& s) {
  {
    const std::lock_guard lock{mutex_};
    if (!is_over_) {
      if (!is_turn_posted_ && !has_lookout()) post_turn();
      set_size(size() + 1);
      return ready_.push(s);
    }
  }
  s.post();
}

/// Polls for ready callers for a short time. A caller that is pushed without a post does not keep the loop running, so
/// this function holds a work guard.
void loop_inbox::look_out() {
  const auto work = net::make_work_guard(executor_);
  any_looks_out.store(true, std::memory_order_relaxed);
  begin_lookout();
  for (int i = 0; i < most_looks && size() == 0; ++i) relax();
  int last = size();
  for (int calm = 0, looks = 0; last > 0 && calm < calm_looks && looks < most_calming; ++calm, ++looks) {
    relax();
    const int now = size();
    if (now != last) calm = 0;
    last = now;
  }
  end_lookout();
}

void loop_inbox::begin_lookout() noexcept {
  const std::lock_guard lock{mutex_};
  lookouts_.store(lookouts_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void loop_inbox::end_lookout() {
  const std::lock_guard lock{mutex_};
  lookouts_.store(lookouts_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (size() > 0 && !is_turn_posted_) post_turn();
}

/// Posts turn() to the loop. Precondition: the lock is held. Posting under the lock is safe, because an io_context
/// never calls the function inside the post.
void loop_inbox::post_turn() {
  struct call {
    using allocator_type = fixed_allocator<void, 160>;
    loop_inbox* inbox;
    allocator_type get_allocator() const noexcept { return allocator_type{inbox->memory_}; }
    void operator()() const { inbox->turn(); }
  };
  net::post(executor_, call{this});
  is_turn_posted_ = true;
}

/// Returns the next ready caller for turn(). One run of turn() resumes only callers that are ready when the run begins,
/// so that the loop's other handlers can run. If several callers are ready, the next run of turn() is posted before the
/// first caller is resumed. So other threads of the loop can resume the other callers if the first caller takes long or
/// throws.
suspended* loop_inbox::next(int& left, bool is_first) noexcept {
  const std::lock_guard lock{mutex_};
  if (is_first) {
    is_turn_posted_ = false;
    left = std::min(size(), resumptions_per_turn);
  }
  if (left-- <= 0) return nullptr;
  suspended* const s = ready_.pop();
  if (s == nullptr) return nullptr;
  set_size(size() - 1);
  // post_turn() can't fail here: no call of turn() is posted, so the memory for such a post is free.
  if (size() > 0 && !is_turn_posted_ && !has_lookout()) post_turn();
  return s;
}

void loop_inbox::turn() {
  int left = 0;
  for (suspended* s = next(left, true); s != nullptr; s = next(left, false)) s->resume();
}

/// Destroys the ready callers. Destroying a caller may make other callers of this loop ready. Those other callers are
/// posted, and destroyed with all posted functions.
void loop_inbox::shutdown() {
  suspended_list lost;
  {
    const std::lock_guard lock{mutex_};
    is_over_ = true;
    lost.append(std::move(ready_));
    set_size(0);
  }
  while (suspended* s = lost.pop()) s->destroy();
}

}  // namespace canigo::detail
