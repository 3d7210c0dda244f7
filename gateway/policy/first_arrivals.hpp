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

/// Returns a key that identifies a call of this tenant when its client sends the call again. The key is the
/// Idempotency-Key, the amz-sdk-invocation-id, or the target of a GET. Empty: the call has no key, or a key that is too
/// long.
std::string resend_key(const message_head& head, std::string_view tenant);

/// Remembers when calls arrived whose clients disconnected while the calls were queued. A client with a time limit
/// sends such a call again. Without its first arrival time the call would start at the end of the queue each time.
///
/// An arrival is kept for a minute after its client disconnected, if the table has space. Each arrival is used for one
/// call only.
/// Threads: any.
class first_arrivals {
 public:
  static constexpr std::size_t most = 4'096;

  /// Whether any arrival is kept, so that take() may find one.
  bool has_some() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  /// Stores the arrival time of a call whose client has disconnected.
  void note(std::string key, time_point since, time_point now);
  /// Removes and returns the first arrival of a call that was sent again; nothing if none is known.
  std::optional<time_point> take(std::string_view key, time_point now);

 private:
  struct arrival {
    time_point since;
    time_point until;
  };
  using book = std::map<std::string, arrival, std::less<>>;

  void drop_old(time_point now);

  std::atomic<std::size_t> count_{0};  // the size of by_end_
  std::mutex mutex_;
  book arrivals_;
  // The keys with their expiry times, in that order. The list includes keys that take() has removed from arrivals_.
  std::deque<std::pair<time_point, std::string>> by_end_;
};

}  // namespace canigo::gateway
