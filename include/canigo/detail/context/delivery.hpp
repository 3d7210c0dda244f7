#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/context/counted_member.hpp"
#include "canigo/detail/context/engine_alarm.hpp"
#include "canigo/detail/context/loop_hold.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>

#include <atomic>

namespace canigo::detail {

class stealing_service;

/// The base of an engine. After the engine's lock is released, it carries out what the engine decided under the lock.
///
/// - One handler, the drain, resumes all ready callers whose handlers have the engine's executor. The drain is posted
///   to that executor.
/// - With the executor of work_stealing, each ready caller is a separate work item, which threads may steal. It is
///   pushed to the queue of the thread that ended the wait, without a post.
/// - A caller whose handler has another executor gets its own post to that executor.
/// - A call from the engine to a strand on the engine's context also gets its own post.
/// - If there is no memory for a post, the engine keeps the caller or call, and tries the post again a millisecond
///   later.
/// - Once the context is destroyed, the engine posts nothing to it, and destroys callers and calls as an executor does.
///   It still posts to callers with other executors, because their contexts may exist.
///
/// This class does not know what the callers wait for. All members are used under the lock, unless their comment says
/// otherwise.
class delivery : public counted_member {
 public:
  const net::any_io_executor& executor() const noexcept { return executor_; }

 protected:
  friend class engine_alarm;
  /// Holds the lock. Its destructor releases the lock, and then carries out the decisions that were made under the
  /// lock.
  class change {
   public:
    explicit change(delivery& d) noexcept : delivery_{d} { d.mutex_.lock(); }
    change(const change&) = delete;
    change& operator=(const change&) = delete;
    ~change() { delivery_.unlock(); }

   private:
    delivery& delivery_;
  };

  explicit delivery(const net::any_io_executor& executor);
  ~delivery() override = default;

  void unlock() noexcept {
    if (is_due_ || loop_.is_over()) [[unlikely]]
      return carry_out(false);
    mutex_.unlock();
  }
  /// Releases the lock, and carries out the decisions that were made under it. With `drain_goes_on`, a drain that is
  /// already running resumes the ready callers, so no further drain is posted.
  virtual void carry_out(bool drain_goes_on) noexcept { hand_over(drain_goes_on); }
  void hand_over(bool drain_goes_on) noexcept;

  /// Call it when the wait of `s` has ended. `at_home`: whether the handler of `s` has the engine's executor. If not,
  /// `s` holds a reference to the engine until `s` is resumed.
  void make_ready(suspended& s, bool at_home) noexcept {
    is_due_ = true;
    if (at_home) {
      if (ready_.empty()) has_ready_.store(true, std::memory_order_relaxed);
      ready_.push(s);
    } else {
      add_ref();
      foreign_.push(s);
    }
  }
  /// Whether callers with the engine's executor are passed to make_pushed() instead of make_ready().
  bool pushes() const noexcept { return pumps_ != nullptr; }
  /// Call it when the wait of `s`, whose handler has the engine's executor, has ended. `s` holds a reference to the
  /// engine until it is resumed.
  void make_pushed(suspended& s) noexcept {
    is_due_ = true;
    add_ref();
    pushed_.push(s);
  }
  /// Queues `call`, a call by the engine itself. It is posted after the lock is released. post_soon() adds the
  /// reference to the engine that `call` holds.
  void post_soon(suspended& call) noexcept {
    add_ref();
    post_kept(call);
  }
  /// Like post_soon(), for a call that already holds a reference to the engine.
  void post_kept(suspended& call) noexcept {
    is_due_ = true;
    calls_.push(call);
  }
  /// Makes unlock() call carry_out(). Call note_due() if the engine itself has work to do after the lock is released.
  void note_due() noexcept { is_due_ = true; }
  /// Keeps a call that could not be posted for lack of memory, and the reference to the engine that the call holds. The
  /// call is posted later, when there is memory.
  void post_later(suspended& call) noexcept;
  /// Schedules another attempt in a millisecond, for steps that failed for lack of memory.
  void retry_soon() noexcept;
  /// Called a millisecond after retry_soon(): the engine repeats the steps that failed for lack of memory.
  virtual void retry() noexcept {}

  /// Adds or removes a reason to keep the loop of the executor running.
  void hold_loop() noexcept { loop_.add_reason(executor_); }
  void release_loop() noexcept { loop_.remove_reason(); }

  /// Called without the lock, each time the drain (the posted handler) runs. Resumes ready callers on this thread. A
  /// subclass may override this function to end the run of the drain earlier.
  virtual void run_turn() { resume_ready(); }
  /// Resumes ready callers; with `work_left`, only as long as `*work_left` is more than 0.
  void resume_ready(const int* work_left = nullptr);

  /// Returns all ready callers and due calls when the context shuts down. The function that calls take_all() must
  /// destroy these callers and calls after the lock is released.
  suspended_list take_all() noexcept;
  void let_go_of_context() noexcept override;

  const bool runs_on_io_context_;  // whether the executor is an io_context's own, or that of work_stealing

 private:
  struct drain final : suspended {
    explicit drain(delivery& d) noexcept : owner{&d} {}
    void resume() override;
    void post() override;
    void destroy() noexcept override;
    delivery* owner;
    fixed_memory<160> memory;
  };

  static void push_each(stealing_service* pumps, suspended_list& list) noexcept;
  void hand_over_without_context() noexcept;
  suspended_list take_ready() noexcept;
  void post_drain() noexcept;
  void post_each(suspended_list& list, suspended_list& home, const context_visit& visit) noexcept;
  bool keep(suspended& s, suspended_list& home) noexcept;
  void end_turn() noexcept;

  bool is_due_ = false;            // whether there is anything to carry out after the lock is released
  bool is_drain_posted_ = false;   // whether a drain is posted and has not begun
  atomic<bool> has_ready_{false};  // whether ready_ has any callers; a drain checks it without the lock first
  suspended_list ready_;
  suspended_list pushed_;
  suspended_list foreign_;
  suspended_list calls_;
  // the pumps (work queues) of a work_stealing executor; null for other executors; valid as long as the context exists
  stealing_service* const pumps_;
  net::any_io_executor executor_;
  loop_hold loop_;
  drain drain_;
  engine_alarm retry_;
};

}  // namespace canigo::detail
