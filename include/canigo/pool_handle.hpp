#pragma once

#include "canigo/detail/coro/named_first.hpp"
#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_calls.hpp"
#include "canigo/detail/pool/pool_options.hpp"
#include "canigo/detail/pool/pool_ref.hpp"
#include "canigo/detail/pool/pool_waits.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/task.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace canigo {

/// The members that strand_pool and resource_pool share. R is what a worker owns, or void.
///
/// An operation is a callable that takes what it wants of (R&, task_context&). If it returns net::awaitable<T>, it is
/// long: it runs as a coroutine on its worker's strand and can be cancelled. Otherwise it is short: its worker calls
/// it.
///
/// Errors of run, async_run and tasks:
/// - the exception of the operation, after its last attempt;
/// - errc::timed_out, and errc::stopped;
/// - errc::queue_full and errc::evicted, by the overflow policy;
/// - operation_aborted if it was cancelled;
/// - std::errc::resource_deadlock_would_occur if every worker would wait for the pool itself, also after a resize();
/// - that code also if a task waits for itself or its group;
/// - std::future_errc::broken_promise if an object that the operation waited for dropped it. Its worker goes too, and
///   the pool replaces the worker.
///
/// Wrong options throw errc::invalid_priority or errc::invalid_argument at once, and leave the operation as it was.
/// std::bad_alloc leaves it as it was, too.
/// Threads: any, all members, at once.
/// Lifetime: the destructor cancels all that runs, without waiting; every caller that waits ends with errc::stopped.
/// The execution context may be destroyed first. An operation that goes on after its time is up outlives its caller: it
/// must own what it uses.
template <class R>
class pool_handle {
  template <class F>
  using result_of = detail::operation_result<R, F>;
  using purpose = detail::pool_waiter::purpose;

 public:
  using executor_type = net::any_io_executor;

  pool_handle(const pool_handle&) = delete;
  pool_handle& operator=(const pool_handle&) = delete;

  /// Runs an operation and waits for its result. Nothing happens before it is awaited.
  ///
  /// If the queue is full and the overflow policy is `wait`, it first waits for room, by priority and arrival.
  /// Cancellation: terminal, partial, total. Cancels the operation: a queued one ends at once, a running one when it
  /// has really ended. Completes on the awaiting coroutine's executor.
  /// Allocates: nothing in steady state but its coroutine frames, which Asio recycles.
  template <class F>
    requires detail::operation<std::decay_t<F>, R>
  [[nodiscard("co_await it")]] auto run(F&& f, const task_options& o = detail::no_options)
      -> detail::named_first<F, result_of<F>> {
    return detail::named_first<F, result_of<F>>(
        detail::await_task<result_of<F>>(purpose::run, make_task(std::forward<F>(f), o)));
  }

  /// Does not compile: the compiler's message says what to write.
  template <class F>
    requires(!detail::operation<std::decay_t<F>, R>)
  net::awaitable<void> run(F&&, const task_options& = detail::no_options) {
    detail::refuse_operation<std::decay_t<F>, R>();
    return {};
  }

  /// Like run(), for any completion token; signature void(std::exception_ptr, T), or void(std::exception_ptr). T must
  /// have a default constructor.
  template <class F, net::completion_token_for<detail::result_signature<detail::operation_result<R, F>>> Token =
                         net::use_awaitable_t<>>
    requires detail::operation<std::decay_t<F>, R>
  auto async_run(F&& f, const task_options& o = detail::no_options, Token&& token = Token()) {
    using T = result_of<F>;
    auto t = make_task(std::forward<F>(f), o);
    const detail::pool_core* const core = &t->home();
    return net::async_initiate<Token, detail::result_signature<T>>(detail::start_task_wait<T>{core, purpose::run},
                                                                   token, std::move(t));
  }
  template <class F, class Token>
    requires(detail::operation<std::decay_t<F>, R> && !std::is_convertible_v<Token, const task_options&>)
  auto async_run(F&& f, Token&& token) {
    return async_run(std::forward<F>(f), detail::no_options, std::forward<Token>(token));
  }

  /// Hands an operation over; never suspends. If the pool refuses it, its task ends with that error.
  template <class F>
    requires detail::operation<std::decay_t<F>, R>
  auto submit(F&& f, const task_options& o = detail::no_options) -> task<result_of<F>> {
    auto t = make_task(std::forward<F>(f), o);
    core_.submit(*t);
    return task<result_of<F>>{std::move(t)};
  }

  /// Hands an operation over and forgets about it. Never blocks. An exception of the operation is counted.
  ///
  /// Returns false if the pool refused it; then `f` is as it was, unless a move of it may throw.
  /// Allocates: nothing in steady state for a callable of up to 100 bytes without options but a priority.
  template <class F>
    requires detail::operation<std::decay_t<F>, R>
  [[nodiscard]] bool try_post(F&& f, const task_options& o = detail::no_options) {
    core_.check(o);
    detail::task_ref t{new detail::task_of<std::decay_t<F>, R>(std::forward<F>(f))};
    if (core_.post(*t, o)) {
      t.release();
      return true;
    }
    if constexpr (!std::is_reference_v<F> && !std::is_const_v<F>) t->give_back(f);
    return false;
  }

  /// Cancels the tasks that are in the group now, and returns their number.
  std::size_t cancel_group(std::uint64_t group) { return core_.cancel_group(group); }
  /// Waits until no task is in the group. An operation of the group itself gets
  /// std::errc::resource_deadlock_would_occur. Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<void> wait_group(std::uint64_t group) { return detail::group_ended(core_, group); }

  /// Changes the number of workers. Interrupts nothing: no operation starts while more run than the new number.
  void resize(std::size_t concurrency) { core_.resize(concurrency); }

  /// Begins to stop, at the call; see stop_mode. The awaitable waits until the pool has stopped.
  ///
  /// A harder mode may follow a softer one. A softer one after that keeps the harder one; only its grace counts. After
  /// `grace` the mode is cancel_all: tasks that still run are cancelled, and tasks that are still queued end with
  /// errc::stopped. Of several calls, the grace that is over first counts. All callers get the same report.
  /// Throws errc::invalid_argument, at once, for an unknown mode.
  /// Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<stop_report> stop(stop_mode mode = stop_mode::drain, duration grace = duration::max()) {
    request_stop(mode, grace);
    return detail::stopped(core_);
  }
  /// Like stop(), without waiting.
  void request_stop(stop_mode mode, duration grace = duration::max()) {
    detail::check_stop(mode);
    core_.request_stop(mode, grace);
  }
  /// Waits until the pool has stopped, for any reason. If it gave up because of its restart policy, throws the cause.
  net::awaitable<stop_report> closed() { return detail::closed(core_); }
  bool is_closed() const noexcept { return core_.is_closed(); }

  /// Allocates.
  pool_stats stats() const { return core_.stats(); }
  executor_type get_executor() const { return core_.executor(); }
  /// For the library itself.
  const detail::pool_ref& core() const noexcept { return core_; }

 protected:
  pool_handle(const net::any_io_executor& executor, const detail::pool_core_options& o,
              std::unique_ptr<detail::pool_resources> r)
      : core_{executor, o, std::move(r)} {}
  ~pool_handle() { core_.request_stop(stop_mode::cancel_all, duration::max()); }

 private:
  template <class F>
  auto make_task(F&& f, const task_options& o) {
    core_.check(o);
    detail::task_ref<detail::result_task<result_of<F>>> t{new detail::task_of<std::decay_t<F>, R>(std::forward<F>(f))};
    core_.prepare_for_handle(*t, o);
    return t;
  }

  detail::pool_ref core_;
};

}  // namespace canigo
