#pragma once

#include "canigo/detail/coro/child.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/co_spawn.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// The first coroutine frame of an operation that run_on() runs on another executor. It accepts all types of
/// cancellation, because the waiting coroutine has already filtered them.
template <class T>
net::awaitable<void> first_frame(net::awaitable<T> op, left_result<T>* result) {
  co_await net::this_coro::reset_cancellation_state(net::enable_total_cancellation());
  std::exception_ptr error;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(op);
    } else {
      result->leave(co_await std::move(op));
    }
  } catch (...) {
    error = std::current_exception();
  }
  // In Asio 1.26 to 1.30.0, run() throws if a coroutine is cancelled and ends without having been suspended. This call
  // prevents that.
  co_await net::this_coro::throw_if_cancelled(false);
  if (error) std::rethrow_exception(error);
}

/// Runs `op` on `executor`, and passes the cancellation of the calling coroutine on.
///
/// If the caller's executor allows only one thread at a time, `executor` must also allow only one. For example,
/// `executor` may be the caller's own executor, with the mark of an operation added to it. For a coroutine that needs
/// its own strand, use detail::child.
template <class T>
net::awaitable<T> run_on(net::any_io_executor executor, net::awaitable<T> op) {
  left_result<T> result;
  co_await net::co_spawn(executor, first_frame(std::move(op), &result), net::use_awaitable);
  co_return result.take();
}

}  // namespace canigo::detail
