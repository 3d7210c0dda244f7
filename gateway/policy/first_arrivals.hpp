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

/// The name by which a call that its client sends again can be known, within its tenant: the Idempotency-Key, the
/// amz-sdk-invocation-id, or the target of a GET. Empty: it has none, or a long one.
std::string resend_key(const message_head& head, std::string_view tenant);

/// The arrivals of calls whose clients have left while they waited. Clients with a time limit send such a call again,
/// and it would begin at the end of the line each time.
///
/// An arrival is kept for a minute from when its client left, and as long as there is room. It serves one call only.
/// Threads: any.
class first_arrivals {
 public:
  static constexpr std::size_t most = 4'096;

  /// Whether take() may find one.
  bool has_some() const noexcept { return count_.load(std::memory_order_relaxed) > 0; }
  /// Notes the arrival of a call whose client has left.
  void note(std::string key, time_point since, time_point now);
  /// The arrival of the call that is sent again now. Nothing: no arrival is known.
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
  std::deque<std::pair<time_point, std::string>> by_end_;  // in the order of their ends; also those that were taken
};

}  // namespace canigo::gateway
