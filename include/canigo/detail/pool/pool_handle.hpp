#pragma once

#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_calls.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_waits.hpp"
#include "canigo/net.hpp"
#include "canigo/pool_stats.hpp"
#include "canigo/stop_mode.hpp"
#include "canigo/task.hpp"
#include "canigo/task_options.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// What strand_pool and resource_pool have in common. R is what a worker owns, or void.
///
/// An operation is a callable that takes what it wants of (R&, task_context&). If it returns net::awaitable<T> it is
/// long: it runs as a coroutine on its worker's strand and can be cancelled. Otherwise it is short: it is just called.
///
/// Errors, of run, async_run and tasks: what the operation threw, after its last attempt; errc::timed_out;
/// errc::stopped; errc::queue_full and errc::evicted by the overflow policy; operation_aborted if it was cancelled;
/// std::errc::resource_deadlock_would_occur if every worker would wait for the pool itself, also after a resize(), and
/// if a task waits for itself or its group;
/// std::future_errc::broken_promise if what the operation waited for dropped it without a word, with which its worker
/// goes too, and is replaced. What takes an operation throws errc::invalid_priority and errc::invalid_argument at once,
/// with the operation left alone, and std::bad_alloc.
/// Threads: any, all members, at once.
/// Lifetime: destroying it cancels all that runs, without waiting; everything that waits ends with errc::stopped. The
/// execution context may be destroyed first. An operation that is told to have timed out and goes on regardless
/// outlives its caller: it must own what it uses.
template <class R>
class pool_handle {
 public:
  pool_handle(const pool_handle&) = delete;
  pool_handle& operator=(const pool_handle&) = delete;

  /// Runs an operation and waits for its result. Nothing happens before it is awaited.
  ///
  /// Where the queue is full and the overflow policy is `wait`, it waits for room first, by priority and arrival.
  /// Cancellation: terminal, partial, total. Cancels the operation: a queued one ends at once, a running one when it
  /// has really ended. Completes on the awaiting coroutine's executor.
  /// Allocates: nothing in steady state but its coroutine frames, which Asio recycles.
  template <class F>
    requires operation<std::decay_t<F>, R>
  auto run(F&& f, const task_options& o = no_options) -> run_result<F, operation_result<R, F>> {
    return run_result<F, operation_result<R, F>>(
        await_task<operation_result<R, F>>(pool_waiter::purpose::run, make_task(std::forward<F>(f), o)));
  }

  /// The same for any completion token; signature void(std::exception_ptr, T), or void(std::exception_ptr). T must have
  /// a default constructor.
  template <class F, net::completion_token_for<result_signature<operation_result<R, F>>> Token>
    requires operation<std::decay_t<F>, R>
  auto async_run(F&& f, const task_options& o, Token&& token) {
    using T = operation_result<R, F>;
    return net::async_initiate<Token, result_signature<T>>(start_task_wait<T>{pool_waiter::purpose::run}, token,
                                                           make_task(std::forward<F>(f), o));
  }

  /// Hands an operation over; never suspends. Where the pool refuses it, that is how its task ends.
  template <class F>
    requires operation<std::decay_t<F>, R>
  auto submit(F&& f, const task_options& o = no_options) -> task<operation_result<R, F>> {
    auto t = make_task(std::forward<F>(f), o);
    core_->submit(*t);
    return task<operation_result<R, F>>{std::move(t)};
  }

  /// Hands an operation over and forgets about it; false if the pool refused it, and then `f` is as it was, unless a
  /// move of it may throw. Never blocks. What it throws is counted.
  ///
  /// Allocates: nothing in steady state for a callable of up to 100 bytes without options but a priority.
  template <class F>
    requires operation<std::decay_t<F>, R>
  bool try_post(F&& f, const task_options& o = no_options) {
    core_->check(o);
    task_ref t{new task_of<std::decay_t<F>, R>(std::forward<F>(f))};
    core_->prepare(*t, o);
    if (core_->post(*t)) {
      t.release();
      return true;
    }
    if constexpr (!std::is_reference_v<F> && !std::is_const_v<F>) t->give_back(f);
    return false;
  }

  /// Cancels what is in the group now; how many that were.
  std::size_t cancel_group(std::uint64_t group) { return core_->cancel_group(group); }
  /// Waits until nothing is in the group. An operation of the group itself gets
  /// std::errc::resource_deadlock_would_occur. Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<void> wait_group(std::uint64_t group) { return group_ended(pool_ref{*core_}, group); }

  /// Changes the number of workers. Interrupts nothing: no operation starts while more run than are wanted now.
  void resize(std::size_t concurrency) { core_->resize(concurrency); }

  /// Begins to stop, at the call; see stop_mode for what that means. The awaitable waits until it is done.
  ///
  /// Monotone: a harder mode may follow a softer one, never the other way round. After `grace` the mode is cancel_all,
  /// whichever it was: what still runs is cancelled, and what is still queued ends with errc::stopped. Of several calls
  /// the grace counts that is over first. All callers get the same report.
  /// Throws errc::invalid_argument, at once, for a mode that is none.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<stop_report> stop(stop_mode mode = stop_mode::drain, duration grace = duration::max()) {
    request_stop(mode, grace);
    return stopped(pool_ref{*core_});
  }
  /// The same without waiting.
  void request_stop(stop_mode mode, duration grace = duration::max()) {
    check_stop(mode);
    core_->request_stop(mode, grace);
  }
  /// Waits until the pool has stopped, for whatever reason. Throws the cause where it gave up because of its restart
  /// policy.
  net::awaitable<stop_report> closed() { return detail::closed(pool_ref{*core_}); }
  bool is_closed() const noexcept { return core_->is_closed(); }

  /// Allocates.
  pool_stats stats() const { return core_->stats(); }
  net::any_io_executor get_executor() const { return core_->executor(); }
  /// For the library itself.
  pool_core& core() noexcept { return *core_; }

 protected:
  pool_handle(const net::any_io_executor& executor, const pool_core_options& o, std::unique_ptr<pool_resources> r)
      : core_{pool_core::open(executor, o, std::move(r))} {}
  ~pool_handle() { core_->close(); }

 private:
  template <class F>
  auto make_task(F&& f, const task_options& o) -> task_ref<result_task<operation_result<R, F>>> {
    core_->check(o);
    task_ref<result_task<operation_result<R, F>>> t{new task_of<std::decay_t<F>, R>(std::forward<F>(f))};
    core_->prepare_for_handle(*t, o);
    return t;
  }

  pool_core* core_;
};

}  // namespace canigo::detail
