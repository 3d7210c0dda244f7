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

/// The base of an engine. It carries out after the lock what the engine decides under the lock.
///
/// - One drain resumes all callers that are ready. A post brings the drain to the engine's executor.
/// - With the executor of work_stealing each caller is an operation of its own, which threads may take from each other.
///   It goes into the queue of the thread that ended the wait, without a post.
/// - A foreign caller has another executor. It gets a post of its own there.
/// - A call goes from the engine to a strand on the engine's context. It gets a post of its own there, too.
/// - Without memory for a post, the caller or call stays where it is. The engine tries again a millisecond later.
/// - Once the context is gone, the engine posts nothing to it. It destroys callers and calls, as an executor does that
///   drops them. It still posts to foreign callers, because their context may be there.
///
/// It does not know what the callers wait for. All members are under the lock unless they say otherwise.
class delivery : public counted_member {
 public:
  const net::any_io_executor& executor() const noexcept { return executor_; }

 protected:
  friend class engine_alarm;
  /// Holds the lock. Its end releases the lock and carries out what was decided.
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
  /// Carries out what is due and releases the lock. A drain that goes on after this needs no other drain.
  virtual void carry_out(bool drain_goes_on) noexcept { hand_over(drain_goes_on); }
  void hand_over(bool drain_goes_on) noexcept;

  /// The wait of `s` has ended. Unless `s` is at home, it holds a reference to the engine until it is resumed.
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
  /// Whether make_pushed() is to be used instead of make_ready() for callers that are at home.
  bool pushes() const noexcept { return pumps_ != nullptr; }
  /// The wait of `s`, which is at home, has ended. It holds a reference to the engine until it is resumed.
  void make_pushed(suspended& s) noexcept {
    is_due_ = true;
    add_ref();
    pushed_.push(s);
  }
  /// Posts a call of the engine's own, which then holds a reference to the engine.
  void post_soon(suspended& call) noexcept {
    add_ref();
    post_kept(call);
  }
  /// Like post_soon(), for a call that keeps the engine alive itself.
  void post_kept(suspended& call) noexcept {
    is_due_ = true;
    calls_.push(call);
  }
  /// The engine itself has something to carry out.
  void note_due() noexcept { is_due_ = true; }
  /// Keeps a call whose post failed, with the reference that it holds; it is posted when there is memory.
  void post_later(suspended& call) noexcept;
  /// Tries again a millisecond later what there is no memory for.
  void retry_soon() noexcept;
  /// The millisecond is over: the engine tries again what it had no memory for.
  virtual void retry() noexcept {}

  /// A reason to keep the loop of the executor running, and the end of it.
  void hold_loop() noexcept { loop_.add_reason(executor_); }
  void release_loop() noexcept { loop_.remove_reason(); }

  /// One turn of the loop on this thread, without the lock. A subclass may limit the turn by more than its length.
  virtual void run_turn() { resume_ready(); }
  /// Resumes ready callers, while `work_left`, if there is one, is above 0.
  void resume_ready(const int* work_left = nullptr);

  /// Takes all that is due, to be destroyed after the lock: the context goes.
  suspended_list take_all() noexcept;
  void let_go_of_context() noexcept override;

  const bool runs_on_io_context_;  // the executor is an io_context's own, or that of work_stealing

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

  bool is_due_ = false;            // something is to be carried out after the lock
  bool is_drain_posted_ = false;   // and has not begun
  atomic<bool> has_ready_{false};  // whether ready_ has any; a drain looks at it without the lock first
  suspended_list ready_;
  suspended_list pushed_;
  suspended_list foreign_;
  suspended_list calls_;
  stealing_service* const pumps_;  // of the executor, if that is work_stealing's; there as long as the context is
  net::any_io_executor executor_;
  loop_hold loop_;
  drain drain_;
  engine_alarm retry_;
};

}  // namespace canigo::detail
