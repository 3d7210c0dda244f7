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

/// The ready queue of an event loop. It holds callers that run on this loop, have waited for an object of another loop,
/// and can now be resumed.
///
/// The first caller in the queue costs a post to the loop, which may wake the loop. Until the loop runs the posted
/// handler, each further caller costs only a lock.
class loop_inbox : public net::execution_context::service {
 public:
  using key_type = loop_inbox;
  static net::execution_context::id id;

  explicit loop_inbox(net::execution_context& loop);
  ~loop_inbox() override;

  /// The inbox of `loop`. The first call creates it; throws if there is no memory for it.
  static loop_inbox& of(net::io_context& loop);
  /// The inbox of `loop`, or nullptr if it has none. find() never creates an inbox, because a loop that is being
  /// destroyed can't create a service.
  static loop_inbox* find(net::io_context& loop);

  /// The inbox of the executor's loop if a thread busy-polls this inbox. If no thread busy-polls it, nullptr, because a
  /// plain post is as fast as the inbox.
  static loop_inbox* watched(const net::io_context::executor_type& executor) noexcept {
    return any_looks_out.load(std::memory_order_relaxed) ? find_watched(executor) : nullptr;
  }

  /// Queues `s` for its loop, which resumes it. Any thread may call it. If this throws, nothing has happened.
  void push(suspended& s);

  /// Busy-polls this queue for about a microsecond. Call it on a thread that runs the loop and has nothing to do. A
  /// caller that is queued during the poll needs no post. A post would take a lock that the polling thread needs, too.
  /// If another thread queues several callers in a row, the poll lasts until no more callers arrive, or for some
  /// microseconds. If the poll were shorter, the two threads would compete for the lock of the inbox.
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

  /// Whether any thread has ever called look_out(). If no thread has, the inbox costs the program only a read of this
  /// flag.
  static std::atomic<bool> any_looks_out;

  net::io_context::executor_type executor_;
  mutex mutex_;
  suspended_list ready_;
  atomic<int> size_{0};      // size of ready_; a polling thread reads it without the lock
  atomic<int> lookouts_{0};  // number of threads that busy-poll this inbox
  // whether the handler that resumes the queued callers is posted and has not begun
  bool is_turn_posted_ = false;
  bool is_over_ = false;
  fixed_memory<160> memory_;
};

}  // namespace canigo::detail
