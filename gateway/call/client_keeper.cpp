#include "gateway/call/client_keeper.hpp"

#include "canigo/error.hpp"

#include <asio/co_spawn.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>

#include <array>
#include <chrono>
#include <exception>
#include <utility>

// No temporary that needs a destructor stands in a co_await here: g++ 12 may destroy it twice.
namespace canigo::gateway {
namespace {

using clock = std::chrono::steady_clock;

}  // namespace

client_keeper::client_keeper(const net::any_io_executor& loop, byte_stream& client, duration stall,
                             const keeping_times& times, std::function<std::string()> next, std::function<void()> lost)
    : client_{client},
      stall_{stall},
      times_{times},
      next_{std::move(next)},
      lost_{std::move(lost)},
      bell_{loop},
      ended_{loop, time_point::max()} {}

void client_keeper::begin() {
  if (written_ >= times_.most) return;
  if (due_ == time_point::max()) due_ = saturating_add(clock::now(), times_.after);
  is_on_ = is_running_ = true;
  net::co_spawn(bell_.get_executor(), keep(), [this](const std::exception_ptr& failed) {
    is_running_ = false;
    ended_.cancel();
    if (failed && has_written_) lost_();  // without memory: the client may have a part of a text
  });
}

net::awaitable<void> client_keeper::end() {
  is_on_ = false;
  bell_.cancel();
  error_code ignored;
  while (is_running_) co_await ended_.async_wait(net::redirect_error(net::use_awaitable, ignored));
}

net::awaitable<void> client_keeper::keep() {
  while (is_on_ && written_ < times_.most) {
    error_code error;
    bell_.expires_at(due_);
    co_await bell_.async_wait(net::redirect_error(net::use_awaitable, error));
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
    due_ = saturating_add(clock::now(), times_.every);
  }
}

}  // namespace canigo::gateway
