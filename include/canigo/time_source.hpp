#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/time/steady_now.hpp"
#include "canigo/detail/time/timing_wheel.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/execution_context.hpp>
#include <asio/steady_timer.hpp>

#include <atomic>
#include <optional>

namespace canigo::detail {
class counted_member;
}

namespace canigo {

/// Why the function of a deadline is called.
enum class due {
  expired,   ///< its instant has come
  shutdown,  ///< its execution context is going away; it will never come
};

/// Something that is due at an instant: an intrusive node of a time_source, 40 bytes.
///
/// The function runs on a thread that runs the context, with no lock held. It must not run user code: it posts.
class deadline : private detail::timer_node {
 public:
  using function = void (*)(deadline&, due) noexcept;

  explicit deadline(function f) noexcept : function_{f} {}
  deadline(const deadline&) = delete;
  deadline& operator=(const deadline&) = delete;

 private:
  friend class time_source;
  function function_;
};

/// The time of an execution context: what o'clock it is, and a call when a deadline is due.
///
/// All deadlines of a context share one steady_timer, so a million of them cost Asio nothing. While none is armed the
/// timer is idle and does not keep io_context::run() from returning. It is made when the first one is armed: from then
/// on every turn of the loop looks at Asio's reactor as well, which triples the price of a post. Deadlines that are due
/// at the same instant are called in the order in which they were armed. Under testing::virtual_time the clock stands
/// still until it is told to move, and everything else is the same.
///
/// Source of the structure: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987.
/// Threads: any, all members.
class time_source : public net::execution_context::service {
 public:
  using key_type = time_source;
  static net::execution_context::id id;

  explicit time_source(net::execution_context& context);
  ~time_source() override;

  /// The time source of the context that `executor` belongs to, made at the first call.
  static time_source& of(const net::any_io_executor& executor);

  time_point now() const noexcept {
    if (is_virtual_) [[unlikely]]
      return time_point{duration{virtual_now_.load(std::memory_order_relaxed)}};
    return detail::steady_now();
  }

  /// Calls the function of `d` at `when`, or as soon as the loop gets to it where that has passed.
  ///
  /// An armed deadline is moved. Constant time; false once the context has shut down, when nothing is armed any more.
  /// Only the first on a context allocates; while there is no memory for that, the loop polls the clock instead.
  bool arm(deadline& d, time_point when) noexcept;

  /// Takes `d` back. True: its function will not be called. False: it was not armed, or its function is running or
  /// about to run on another thread, and `d` must live until it has.
  bool cancel(deadline& d) noexcept;

  /// Whether nothing at all is armed.
  bool idle() const noexcept;

 private:
  friend class time_source_control;
  friend class detail::counted_member;
  struct on_timer;
  struct on_quiet;

  void shutdown() override;
  void attach(const net::any_io_executor& executor);
  void wake_by_next() noexcept;
  bool wake_by_timer() noexcept;
  bool wake_by_post() noexcept;
  void stop_waiting() noexcept;
  void timer_fired() noexcept;
  void let_go_when_quiet() noexcept;
  void fire(time_point now) noexcept;

  mutable detail::mutex mutex_;
  detail::timing_wheel wheel_;
  net::any_io_executor executor_;  // the context's own; empty until somebody asks for the time source by an executor
  std::optional<net::steady_timer> timer_;
  time_point wake_at_ = time_point::max();  // what is waited for; kept when only later deadlines are left
  bool waiting_ = false;                    // the one async_wait is out
  bool retiming_ = false;                   // it was cancelled, to wait for something else
  bool quieting_ = false;                   // a look at whether the wheel is still empty is posted
  bool is_shut_down_ = false;
  bool is_virtual_ = false;
  std::atomic<duration::rep> virtual_now_{0};
  detail::fixed_memory<128> wait_memory_;
  detail::fixed_memory<128> quiet_memory_;
};

/// Stands in for the clock: makes a time source virtual and moves its time. What testing::virtual_time is made of.
class time_source_control {
 public:
  /// Throws errc::invalid_argument if `context` has used its time source already.
  time_source_control(net::execution_context& context, time_point start);

  /// When something is due next; time_point::max() if nothing is armed.
  time_point next() const noexcept;
  /// Moves the time to `now`, never back, and calls what is due.
  void advance(time_point now) noexcept;
  time_point now() const noexcept { return source_.now(); }

 private:
  time_source& source_;
};

}  // namespace canigo
