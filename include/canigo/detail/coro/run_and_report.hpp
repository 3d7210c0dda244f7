#pragma once

#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/this_coro.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// Runs `op`, and reports to the permit how `op` ended. The permit must live until `op` has ended. `*ran` tells whether
/// the limits inside `op` have granted their requests. If they have not, nothing is reported. `ran` may be null.
template <class T, class P>
net::awaitable<T> run_and_report(net::awaitable<T> op, P& p, const bool* ran = nullptr) {
  std::exception_ptr error;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(op);
      p.succeeded();
      co_return;
    } else {
      T result = co_await std::move(op);
      p.succeeded();
      co_return result;
    }
  } catch (...) {
    error = std::current_exception();
  }
  const net::cancellation_state state = co_await net::this_coro::cancellation_state;
  if (ran != nullptr && !*ran) {
    p.release();
  } else {
    state.cancelled() == net::cancellation_type::none ? p.failed_with(error) : p.cancelled();
  }
  std::rethrow_exception(error);
}

}  // namespace canigo::detail
