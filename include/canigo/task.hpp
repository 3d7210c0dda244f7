#pragma once

#include "canigo/detail/pool/operation.hpp"
#include "canigo/detail/pool/pool_calls.hpp"
#include "canigo/detail/pool/pool_task.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"

#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>
#include <asio/use_awaitable.hpp>

#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

namespace canigo {

template <class R>
class pool_handle;

/// A handle on an operation that was submitted to a pool: `int v = co_await t.result()`.
///
/// Copies refer to the same task. For a default-constructed task, valid() is false, and the other members throw
/// errc::invalid_argument. Dropping the last handle does not cancel the task. A handle may outlive the pool.
/// Errors of result() and async_wait():
/// - any exception of the operation;
/// - operation_aborted if the task was cancelled;
/// - errc::timed_out, stopped, evicted, queue_full;
/// - std::errc::resource_deadlock_would_occur if every worker of the pool would wait for the pool itself;
/// - std::future_errc::broken_promise if the object that should resume the operation dropped its handler.
///
/// Cancellation of result() and async_wait(): terminal, partial, total. Ends the wait, not the task.
/// Threads: any thread may call any member at any time.
template <class T>
class [[nodiscard]] task {
 public:
  using value_type = T;

  task() noexcept = default;

  bool valid() const noexcept { return static_cast<bool>(task_); }
  /// The number of the task, unique in its pool; 0 if the pool refused the task.
  std::uint64_t id() const { return get()->id(); }
  task_state state() const { return get()->state(); }
  /// Ends the task with operation_aborted: a queued task immediately, a running one when its operation has ended.
  /// Returns false if the task had already ended. A short operation is not interrupted; it can check
  /// task_context::stop_requested().
  bool cancel() { return detail::cancel_task(*get()); }

  /// Waits until the task has ended and returns its result, as a copy if T is copyable.
  net::awaitable<T> result() const { return detail::await_task<T>(detail::pool_waiter::purpose::result, get()); }

  /// Like result(), for any completion token. The signature is void(std::exception_ptr, T); if T is void, it is
  /// void(std::exception_ptr). T must have a default constructor, unless it is void.
  template <net::completion_token_for<detail::result_signature<T>> Token = net::use_awaitable_t<>>
  auto async_wait(Token&& token = Token()) const {
    return detail::async_result_of<T>(get(), std::forward<Token>(token));
  }

 private:
  template <class R>
  friend class pool_handle;
  explicit task(detail::task_ref<detail::result_task<T>> t) noexcept : task_{std::move(t)} {}
  const detail::task_ref<detail::result_task<T>>& get() const {
    if (!task_) detail::throw_no_task();
    return task_;
  }

  detail::task_ref<detail::result_task<T>> task_;
};

}  // namespace canigo
