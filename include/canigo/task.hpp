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
/// Copies share it. Dropping the last one does not cancel. May outlive the pool.
/// Errors, of waiting: what the operation threw; operation_aborted if it was cancelled; errc::timed_out, stopped,
/// evicted, queue_full. std::errc::resource_deadlock_would_occur if every worker of the pool would wait for the pool
/// itself.
/// Cancellation, of waiting: terminal, partial, total; ends the wait, not the task.
/// Threads: any, all members, at once.
template <class T>
class [[nodiscard]] task {
 public:
  using value_type = T;

  task() noexcept = default;

  bool valid() const noexcept { return static_cast<bool>(task_); }
  /// Unlike that of any other task of this pool; 0 if the pool refused it.
  std::uint64_t id() const noexcept { return task_->id(); }
  task_state state() const noexcept { return task_->state(); }
  /// Ends it with operation_aborted: at once while it is queued; when its operation has ended, while that runs. False
  /// if it had ended already. A short operation runs on, and can ask task_context::stop_requested().
  bool cancel() { return detail::cancel_task(*task_); }

  /// Waits for the end; the result, a copy where T can be copied. The same as `co_await t`, as an awaitable.
  net::awaitable<T> result() const { return detail::await_task<T>(detail::pool_waiter::purpose::result, task_); }

  /// The same for any completion token; signature void(std::exception_ptr, T), or void(std::exception_ptr). T must have
  /// a default constructor.
  template <net::completion_token_for<detail::result_signature<T>> Token>
  auto async_wait(Token&& token) const {
    return detail::async_result_of<T>(task_, std::forward<Token>(token));
  }

  /// Never called: what co_await takes besides awaitables are functions like this one. See operator co_await below.
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

/// What Asio's await_transform makes of a task becomes the awaitable of its result.
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
