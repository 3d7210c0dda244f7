#include "gateway/call/client_keeper.hpp"

#include "canigo/cancel_after.hpp"
#include "canigo/error.hpp"
#include "canigo/time_source.hpp"

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/this_coro.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <exception>
#include <utility>

// g++ 12 may destroy a temporary of a co_await expression twice. So no such temporary in this file needs a destructor.
namespace canigo::gateway {

client_keeper::client_keeper(const net::any_io_executor& loop, byte_stream& client, duration stall,
                             const keeping_times& times, std::function<std::string()> next, std::function<void()> lost)
    : client_{client},
      stall_{stall},
      times_{times},
      next_{std::move(next)},
      lost_{std::move(lost)},
      over_{loop, time_point::max()},
      ended_{loop, time_point::max()} {}

net::awaitable<bool> client_keeper::keep_during(net::awaitable<bool> wait) {
  begin();
  bool result = false;
  std::exception_ptr failed;
  try {
    result = co_await std::move(wait);
  } catch (...) {
    failed = std::current_exception();
  }
  is_on_ = false;
  over_.cancel();
  // From here on, a cancellation of this coroutine has no effect. Otherwise it could cut off a message that is being
  // sent.
  const bool throws = co_await net::this_coro::throw_if_cancelled();
  co_await net::this_coro::throw_if_cancelled(false);
  error_code ignored;
  while (is_running_) co_await ended_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  co_await net::this_coro::throw_if_cancelled(throws);
  if (failed) std::rethrow_exception(failed);
  co_return result;
}

void client_keeper::begin() {
  if (written_ >= times_.most) return;
  const net::any_io_executor loop = over_.get_executor();
  if (due_ == time_point::max()) due_ = saturating_add(time_source::of(loop).now(), times_.after);
  is_on_ = is_running_ = true;
  net::co_spawn(loop, keep(), [this](const std::exception_ptr& failed) {
    is_running_ = false;
    ended_.cancel();
    // If keep() threw because memory was exhausted, the client may have only a part of a message. So the client is
    // treated as disconnected.
    if (failed && has_written_) lost_();
  });
}

net::awaitable<void> client_keeper::keep() {
  const time_source& time = time_source::of(over_.get_executor());
  while (is_on_ && written_ < times_.most) {
    error_code error;
    // This wait ends when the next message to the client is due, or when the call needs no more messages.
    co_await over_.async_wait(canigo::cancel_after(due_ - time.now(), net::redirect_error(net::use_awaitable, error)));
    if (!is_on_) co_return;
    const std::string text = next_();
    std::array pieces{net::const_buffer{text.data(), text.size()}};
    has_written_ = true;
    co_await client_.write(pieces, stall_, error);
    if (error) {
      lost_();
      co_return;
    }
    ++written_;
    due_ = saturating_add(time.now(), times_.every);
  }
}

}  // namespace canigo::gateway
