#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/net.hpp"

#include <asio/execution_context.hpp>
#include <asio/io_context.hpp>

#include <atomic>

namespace canigo::detail {

/// Brings callers home to a loop that is not that of the object they waited for.
///
/// The first one costs a post, and perhaps wakes the loop. Those that come until the loop turns to it cost a lock.
class loop_inbox : public net::execution_context::service {
 public:
  using key_type = loop_inbox;
  static net::execution_context::id id;

  explicit loop_inbox(net::execution_context& loop);
  ~loop_inbox() override;

  /// That of `loop`, made at the first call. Throws if there is no memory for it.
  static loop_inbox& of(net::io_context& loop);
  /// That of `loop`, or nullptr. A loop that goes makes no service any more.
  static loop_inbox* find(net::io_context& loop);

  /// That of a loop at which another thread looks out just now, or nullptr: then a post is as good.
  static loop_inbox* watched(const net::io_context::executor_type& executor) noexcept {
    return any_looks_out.load(std::memory_order_relaxed) ? find_watched(executor) : nullptr;
  }

  /// Brings `s` to its loop, which resumes it. Any thread. If this throws, nothing has happened.
  void push(suspended& s);

  /// Looks out for about a microsecond, by a thread that runs the loop and has nothing to do. A caller that comes
  /// meanwhile costs no post, which would meet this thread at the lock of the loop. A thread that lets several go is
  /// left alone until no more come, or some microseconds have passed: both would want the same lock.
  void look_out();

 private:
  static loop_inbox* find_watched(const net::io_context::executor_type& executor) noexcept;
  void shutdown() override;
  void post_turn();
  void turn();
  void begin_lookout() noexcept;
  void end_lookout();
  bool has_lookout() const noexcept { return lookouts_.load(std::memory_order_relaxed) > 0; }
  int size() const noexcept { return size_.load(std::memory_order_relaxed); }
  void set_size(int n) noexcept { size_.store(n, std::memory_order_relaxed); }
  suspended* next(int& left, bool is_first) noexcept;

  /// Whether any thread has ever looked out. Other programs pay for this look alone.
  static std::atomic<bool> any_looks_out;

  net::io_context::executor_type executor_;
  mutex mutex_;
  suspended_list ready_;
  atomic<int> size_{0};          // of ready_; a thread that looks out reads it without the lock
  atomic<int> lookouts_{0};      // threads that look out
  bool is_turn_posted_ = false;  // and has not begun; always if a caller is ready, no thread looks out and no turn runs
  bool is_over_ = false;
  fixed_memory<160> memory_;
};

}  // namespace canigo::detail
