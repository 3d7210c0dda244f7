#pragma once

#include <canigo/time.hpp>

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>

#include <system_error>

namespace fetch {

/// Wakes the one coroutine that waits for an event. After waking, the coroutine must check what has changed.
class notice {
 public:
  explicit notice(const asio::any_io_executor& executor) : timer_{executor} {}

  void give() { timer_.cancel(); }
  /// Waits until give() is called, or until `when`.
  asio::awaitable<void> wait_until(canigo::time_point when = canigo::time_point::max()) {
    timer_.expires_at(when);
    std::error_code was_given;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, was_given));
  }

 private:
  asio::steady_timer timer_;
};

}  // namespace fetch
