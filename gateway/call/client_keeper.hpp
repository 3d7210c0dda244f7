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
  duration after;  ///< of waiting, before the first text
  duration every;  ///< between two texts
  int most = std::numeric_limits<int>::max();
};

/// Writes to the client of a call that waits for its turn, so that the client stays. It runs beside the wait, and ends
/// before anything else is written.
///
/// Threads: those of its loop.
class client_keeper {
 public:
  /// `next` makes each text, and `lost` learns that the client takes none for `stall`, or has gone. All must outlive
  /// the keeper.
  client_keeper(const net::any_io_executor& loop, byte_stream& client, duration stall, const keeping_times& times,
                std::function<std::string()> next, std::function<void()> lost);
  client_keeper(const client_keeper&) = delete;
  client_keeper& operator=(const client_keeper&) = delete;

  /// A wait begins. The times go on from an earlier wait.
  void begin();
  /// The wait is over. Returns when nothing is being written any more. To be awaited before the keeper is destroyed.
  net::awaitable<void> end();
  /// The client has a part of a text at least.
  bool has_written() const noexcept { return has_written_; }

 private:
  net::awaitable<void> keep();

  byte_stream& client_;
  const duration stall_;
  const keeping_times times_;
  const std::function<std::string()> next_;
  const std::function<void()> lost_;
  net::steady_timer bell_;   // of the next text
  net::steady_timer ended_;  // rings when keep() has ended
  time_point due_ = time_point::max();
  int written_ = 0;
  bool is_on_ = false;
  bool is_running_ = false;  // keep() is
  bool has_written_ = false;
};

}  // namespace canigo::gateway
