#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/policy/session_cookie.hpp"
#include "gateway/process/admin_handler.hpp"

#include <asio/awaitable.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace canigo::gateway {

class config_snapshot;
class service;

/// The data that all connections to the admin listener share. Threads: any.
class admin_session {
 public:
  static constexpr int most_listeners = 16;  ///< the max number of clients of /api/events at the same time
  static constexpr int most_penalties = 32;  ///< the max number of delayed answers to wrong tokens at the same time

  session_cookie sessions;
  std::atomic<int> listeners{0};
  std::atomic<int> penalties{0};

  process_commands commands;

  /// Returns the state as JSON, without the configuration. Returns the previous result again if it is less than 0.8 s
  /// old. So the cost does not grow with the number of clients.
  net::awaitable<std::shared_ptr<const std::string>> recent_state(service& s);

  /// Returns a number that grows each time `g` differs from the `g` of the previous call. So the page notices that a
  /// reload has replaced the configuration.
  std::uint64_t number_of(const std::shared_ptr<const config_snapshot>& g);

 private:
  std::mutex mutex_;
  std::weak_ptr<const config_snapshot> last_;
  std::uint64_t number_ = 0;
  std::shared_ptr<const std::string> state_;
  time_point made_{};
};

/// Occupies one of `most` places during its lifetime. Converts to false if all places were already occupied.
class counted_place {
 public:
  counted_place(std::atomic<int>& count, int most) noexcept
      : count_{count}, is_held_{count.fetch_add(1, std::memory_order_relaxed) < most} {}
  ~counted_place() { count_.fetch_sub(1, std::memory_order_relaxed); }
  counted_place(const counted_place&) = delete;
  counted_place& operator=(const counted_place&) = delete;

  explicit operator bool() const noexcept { return is_held_; }

 private:
  std::atomic<int>& count_;
  const bool is_held_;
};

}  // namespace canigo::gateway
