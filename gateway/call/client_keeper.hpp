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

/// When a client whose call waits is written to.
struct keeping_times {
  duration after;  ///< how long a call waits before its first text
  duration every;  ///< between two texts
  int most = std::numeric_limits<int>::max();
};

/// Writes to the client of a call that waits for its turn, so that the client stays.
///
/// Time: that of the loop's time source.
/// Threads: those of its loop.
class client_keeper {
 public:
  /// `next` makes each text, and `lost` learns that the client takes none for `stall`, or has gone. All must outlive
  /// the keeper.
  client_keeper(const net::any_io_executor& loop, byte_stream& client, duration stall, const keeping_times& times,
                std::function<std::string()> next, std::function<void()> lost);
  client_keeper(const client_keeper&) = delete;
  client_keeper& operator=(const client_keeper&) = delete;

  /// Awaits `wait`, and writes to the client meanwhile. Returns what `wait` returns, or throws what it throws. By then
  /// nothing is being written any more, so that others may write. The times go on from an earlier wait.
  net::awaitable<bool> keep_during(net::awaitable<bool> wait);

 private:
  void begin();
  net::awaitable<void> keep();

  byte_stream& client_;
  const duration stall_;
  const keeping_times times_;
  const std::function<std::string()> next_;
  const std::function<void()> lost_;
  // Each rings when it is told to, and never by itself.
  net::steady_timer over_;   // the wait is
  net::steady_timer ended_;  // keep() has
  time_point due_ = time_point::max();
  int written_ = 0;
  bool is_on_ = false;
  bool is_running_ = false;   // keep() is
  bool has_written_ = false;  // a part of a text at least
};

}  // namespace canigo::gateway
