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

/// The members that strand_pool and resource_pool share. R is the type of a worker's resource, or void.
///
/// An operation is a callable that takes R&, task_context&, both or none. If it returns net::awaitable<T>, it is a long
/// operation: it runs as a coroutine on its worker's strand and can be cancelled. Otherwise it is a short operation:
/// its worker calls it like a function.
///
/// Errors of run, async_run and tasks:
/// - the exception of the operation, after its last attempt;
/// - errc::timed_out, and errc::stopped;
/// - errc::queue_full and errc::evicted, by the overflow policy;
/// - operation_aborted if the operation was cancelled;
/// - std::errc::resource_deadlock_would_occur if every worker would wait for the pool itself, even after a resize();
/// - std::errc::resource_deadlock_would_occur if a task waits for itself or its group;
/// - std::future_errc::broken_promise if the object that should resume the operation dropped its handler. The pool also
///   replaces the worker.
///
/// Invalid options throw errc::invalid_priority or errc::invalid_argument immediately. After that, and after
/// std::bad_alloc, the callable is unchanged.
/// Threads: any thread may call any member at any time.
/// Lifetime: the destructor cancels all running operations without waiting for them; every waiting caller gets
/// errc::stopped. The execution context may be destroyed first. An operation that continues after its time limit may
/// outlive its caller, so it must own what it uses.
template <class R>
class pool_handle {
  template <class F>
  using result_of = detail::operation_result<R, F>;
  using purpose = detail::pool_waiter::purpose;

 public:
  using executor_type = net::any_io_executor;

  pool_handle(const pool_handle&) = delete;
  pool_handle& operator=(const pool_handle&) = delete;

  /// Runs an operation and waits for its result. Nothing happens until the awaitable is started.
  ///
  /// If the queue is full and the overflow policy is `wait`, run() first waits for room, by priority and arrival.
  /// Cancellation: terminal, partial, total. A queued operation ends immediately; for a running operation, run() waits
  /// until it has really ended. Completes on the awaiting coroutine's executor.
  /// Allocates: in steady state only its coroutine frames, which Asio recycles.
  template <class F>
    requires detail::operation<std::decay_t<F>, R>
  [[nodiscard("co_await it")]] auto run(F&& f, const task_options& o = detail::no_options)
      -> detail::named_first<F, result_of<F>> {
    return detail::named_first<F, result_of<F>>(
        detail::await_task<result_of<F>>(purpose::run, make_task(std::forward<F>(f), o)));
  }

  /// Rejects an `f` that the pool can't run, at compile time. The compiler's message says what to pass instead.
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

  /// Submits an operation without suspending. If the pool refuses the operation, the returned task ends with the error
  /// of the refusal, for example errc::queue_full.
  template <class F>
    requires detail::operation<std::decay_t<F>, R>
  auto submit(F&& f, const task_options& o = detail::no_options) -> task<result_of<F>> {
    auto t = make_task(std::forward<F>(f), o);
    core_.submit(*t);
    return task<result_of<F>>{std::move(t)};
  }

  /// Submits an operation whose result is ignored. Never blocks. The statistics count an exception of the operation.
  ///
  /// Returns false if the pool refuses the operation. In that case `f` is unchanged if moving it can't throw.
  /// Allocates: nothing in steady state, for a callable of up to 100 bytes with no option but a priority.
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

  /// Cancels all tasks of the group, and returns their number.
  std::size_t cancel_group(std::uint64_t group) { return core_.cancel_group(group); }
  /// Waits until no task is in the group. If an operation of the group itself calls wait_group(), wait_group() throws
  /// std::errc::resource_deadlock_would_occur. Cancellation: terminal, partial, total; ends the wait only.
  net::awaitable<void> wait_group(std::uint64_t group) { return detail::group_ended(core_, group); }

  /// Changes the number of workers. Running operations are not interrupted. If more operations run than the new number,
  /// no operation starts until enough of them have ended.
  void resize(std::size_t concurrency) { core_.resize(concurrency); }

  /// Begins to stop the pool immediately, before the awaitable is started; see stop_mode. The awaitable waits until the
  /// pool has stopped.
  ///
  /// A second call can make the mode harder, for example cancel_all instead of drain, but never softer. After `grace`
  /// the mode becomes cancel_all: running tasks are cancelled, and queued tasks end with errc::stopped. After several
  /// calls, the grace that ends first counts. All callers get the same report.
  /// Throws errc::invalid_argument immediately for an unknown mode.
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
  /// Waits until the pool has stopped, for any reason. If the pool stopped because of its restart policy, throws the
  /// cause.
  net::awaitable<stop_report> closed() { return detail::closed(core_); }
  bool is_closed() const noexcept { return core_.is_closed(); }

  /// Allocates memory for the returned statistics.
  pool_stats stats() const { return core_.stats(); }
  executor_type get_executor() const { return core_.executor(); }
  /// Internal access for the library.
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
