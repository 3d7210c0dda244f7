#pragma once

#include "canigo/time.hpp"

#include "gateway/wire/message.hpp"

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace canigo::gateway {

/// Returns a key that is the same if the client sends this call again. It contains the tenant and one of these: the
/// Idempotency-Key, the amz-sdk-invocation-id, or the host and target of a GET. Empty: the call can't be recognized, or
/// its key is too long.
std::string resend_key(const message_head& head, std::string_view tenant);

/// Remembers the arrival times of calls whose clients disconnected while the calls were queued. A client with a time
/// limit sends such a call again. Without its first arrival time the call would start at the end of the queue each
/// time.
///
/// An arrival is kept for a minute after its client disconnected, if the table has space. Each arrival is used for one
/// call only. Threads: any.
class first_arrivals {
 public:
  static constexpr std::size_t most = 4'096;

  /// Whether any arrival time is stored. If not, the caller need not call take().
  bool has_some() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  /// Stores the arrival time of a call whose client has disconnected.
  void note(std::string key, time_point since, time_point now);
  /// Removes and returns the arrival time that is stored for this key; std::nullopt if there is none.
  std::optional<time_point> take(std::string_view key, time_point now);

 private:
  struct arrival {
    time_point since;
    time_point until;
  };
  using book = std::map<std::string, arrival, std::less<>>;

  void drop_old(time_point now);

  std::atomic<std::size_t> count_{0};  // the number of elements of by_end_; it can be read without the lock
  std::mutex mutex_;
  book arrivals_;
  // The keys with their expiry times, in the order of these times. The list may include keys that take() has already
  // removed from arrivals_.
  std::deque<std::pair<time_point, std::string>> by_end_;
};

}  // namespace canigo::gateway
