#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/post.hpp"
#include "canigo/detail/time/deadline.hpp"
#include "canigo/detail/time/processor_clock.hpp"
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

/// The clock and timer of an execution context: returns the time, and calls a function when a deadline is due.
///
/// All deadlines of a context share one steady_timer, so Asio has only one timer even for a million deadlines. While no
/// deadline is armed, the timer is idle and io_context::run() can return. Deadlines that are due at the same instant
/// are called in the order in which they were armed.
///
/// The timer is created when the first deadline is armed. From then on every turn of the loop also checks Asio's
/// reactor, which triples the cost of a post.
///
/// Under testing::virtual_time the clock stands still until the test moves it. Everything else behaves the same.
///
/// Source of the structure: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987.
/// Threads: any thread may call any member.
class time_source : public net::execution_context::service {
 public:
  using key_type = time_source;
  static net::execution_context::id id;

  explicit time_source(net::execution_context& context);
  ~time_source() override;

  /// The time source of the execution context of `executor`. The first call creates it.
  static time_source& of(const net::any_io_executor& executor);

  /// The current time: never ahead of steady_clock, and at most about 1 µs behind it. So the time may go back by up to
  /// 1 µs.
  time_point now() const noexcept {
    if (is_virtual_) [[unlikely]]
      return time_point{duration{virtual_now_.load(std::memory_order_relaxed)}};
    return detail::processor_clock.now();
  }

  /// Calls the function of `d` at `when`. If `when` has passed, the loop calls the function as soon as possible.
  ///
  /// If `d` is already armed, it is moved to `when`. Takes constant time. Returns false, and arms nothing, once the
  /// context has shut down. Allocates only for the first deadline of a context. If there is no memory for that, the
  /// loop polls the clock until memory is available.
  bool arm(deadline& d, time_point when) noexcept;

  /// Disarms `d`. Returns true if its function will not be called. Returns false if `d` was not armed, or if another
  /// thread runs its function or is about to. In the latter case `d` must live until the function has returned.
  [[nodiscard]] bool cancel(deadline& d) noexcept;

  /// Whether no deadline is armed.
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
  net::any_io_executor executor_;  // the executor of the context itself; empty until the first call of of()
  std::optional<net::steady_timer> timer_;
  // the instant that timer_ waits for; not changed if the earliest deadline becomes later
  time_point wake_at_ = time_point::max();
  bool waiting_ = false;   // whether the asynchronous wait of timer_ is pending; there is never a second one
  bool retiming_ = false;  // whether the pending wait was cancelled, so that timer_ can wait for another instant
  bool quieting_ = false;  // true: a handler is posted, and will check whether any deadline is armed
  bool is_shut_down_ = false;
  bool is_virtual_ = false;
  std::atomic<duration::rep> virtual_now_{0};
  detail::fixed_memory<128> wait_memory_;
  detail::fixed_memory<128> quiet_memory_;
};

/// Makes a time source virtual and moves its time. testing::virtual_time uses it.
class time_source_control {
 public:
  /// Throws errc::invalid_argument if the time source of `context` was already used.
  time_source_control(net::execution_context& context, time_point start);

  /// The instant of the earliest deadline; time_point::max() if none is armed.
  time_point next() const noexcept;
  /// Moves the time to `now`, never back, and calls all deadlines that are due.
  void advance(time_point now) noexcept;
  time_point now() const noexcept { return source_.now(); }

 private:
  time_source& source_;
};

}  // namespace canigo
