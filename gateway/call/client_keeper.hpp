#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/wire/byte_stream.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <limits>
#include <string>

namespace canigo::gateway {

/// When messages are sent to the client of a waiting call.
struct keeping_times {
  duration after;  ///< how long a call waits before the first message
  duration every;  ///< the time between two messages
  int most = std::numeric_limits<int>::max();
};

/// Sends messages to the client of a waiting call, so that the client does not time out.
///
/// Time: the clock of the loop's time source.
/// Threads: only the thread of its loop.
class client_keeper {
 public:
  /// `next`: returns the next message. `lost`: is called if the client has disconnected, or accepts no byte for the
  /// time `stall`. All arguments must outlive the keeper.
  client_keeper(const net::any_io_executor& loop, byte_stream& client, duration stall, const keeping_times& times,
                std::function<std::string()> next, std::function<void()> lost);
  client_keeper(const client_keeper&) = delete;
  client_keeper& operator=(const client_keeper&) = delete;

  /// Awaits `wait`, and meanwhile sends messages to the client. Returns or throws the result of `wait`. After
  /// completion, no message is being sent, so the caller may write to the client. A second call continues with the
  /// schedule of messages of the first call.
  net::awaitable<bool> keep_during(net::awaitable<bool> wait);

 private:
  void begin();
  net::awaitable<void> keep();

  byte_stream& client_;
  const duration stall_;
  const keeping_times times_;
  const std::function<std::string()> next_;
  const std::function<void()> lost_;
  // These timers never expire. Cancelling one of them signals an event.
  net::steady_timer over_;   // is cancelled to signal that the call has stopped waiting
  net::steady_timer ended_;  // is cancelled to signal that keep() has ended
  time_point due_ = time_point::max();
  int written_ = 0;
  bool is_on_ = false;
  bool is_running_ = false;   // true: the coroutine keep() is running
  bool has_written_ = false;  // true: at least a part of a message was written
};

}  // namespace canigo::gateway
