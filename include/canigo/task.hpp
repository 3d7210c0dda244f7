#pragma once

#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_calls.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/net.hpp"
#include "canigo/task_state.hpp"

#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <concepts>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace canigo {

namespace detail {
template <class R>
class pool_handle;
}  // namespace detail

/// A handle on an operation that a pool was given: `int v = co_await t`.
///
/// Copies share the task. Dropping the last handle does not cancel it. A handle may outlive the pool.
/// Errors of waiting:
/// - any exception of the operation;
/// - operation_aborted if the task was cancelled;
/// - errc::timed_out, stopped, evicted, queue_full;
/// - std::errc::resource_deadlock_would_occur if every worker of the pool would wait for the pool itself;
/// - std::future_errc::broken_promise if an object that the operation waited for dropped it.
///
/// Cancellation of waiting: terminal, partial, total. Ends the wait, not the task.
/// Threads: any, all members, at once.
/// An awaitable or deferred operation that has not been started keeps what it needs: it may be started after this
/// object is destroyed.
template <class T>
class [[nodiscard]] task {
 public:
  using value_type = T;

  task() noexcept = default;

  bool valid() const noexcept { return static_cast<bool>(task_); }
  /// Unique in its pool; 0 if the pool refused the task.
  std::uint64_t id() const noexcept { return task_->id(); }
  task_state state() const noexcept { return task_->state(); }
  /// Ends the task with operation_aborted: a queued one at once, a running one when its operation has ended. Returns
  /// false if it had ended before. A short operation runs to its end; it can ask task_context::stop_requested().
  bool cancel() { return detail::cancel_task(*task_); }

  /// Waits for the end and returns the result, a copy if T can be copied. The same as `co_await t`, as an awaitable.
  net::awaitable<T> result() const { return detail::await_task<T>(detail::pool_waiter::purpose::result, task_); }

  /// The same for any completion token; signature void(std::exception_ptr, T), or void(std::exception_ptr). T must have
  /// a default constructor.
  template <net::completion_token_for<detail::result_signature<T>> Token>
  auto async_wait(Token&& token) const {
    return detail::async_result_of<T>(task_, std::forward<Token>(token));
  }

  /// Never called. co_await takes awaitables and functions with this signature; operator co_await below does the rest.
  net::detail::awaitable_thread<net::any_io_executor>* operator()(
      net::detail::awaitable_frame_base<net::any_io_executor>*) const noexcept;

 private:
  template <class R>
  friend class detail::pool_handle;
  explicit task(detail::task_ref<detail::result_task<T>> t) noexcept : task_{std::move(t)} {}

  detail::task_ref<detail::result_task<T>> task_;
};

}  // namespace canigo

namespace asio::detail {

/// Makes the awaitable of a task's result out of the object that Asio's await_transform makes of the task.
///
/// From 1.23 on there is a documented way as well, but that one takes temporaries only.
template <class Transformed>
  requires requires(Transformed& t) {
    { t.function_ } -> std::same_as<canigo::task<typename decltype(t.function_)::value_type>&>;
  }
auto operator co_await(Transformed&& t) {
  return t.this_->await_transform(t.function_.result());
}

}  // namespace asio::detail
