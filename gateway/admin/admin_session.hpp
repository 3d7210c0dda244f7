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

/// The parts that the admin's connections share. Threads: any.
class admin_session {
 public:
  static constexpr int most_listeners = 16;  ///< of events
  static constexpr int most_penalties = 32;  ///< wrong tokens whose answers are on their way

  session_cookie sessions;
  std::atomic<int> listeners{0};
  std::atomic<int> penalties{0};

  process_commands commands;

  /// The state as JSON, without the configuration; one that is younger than a second serves all listeners.
  net::awaitable<std::shared_ptr<const std::string>> recent_state(service& s);

  /// Another number for each configuration, by which a page sees that there is another one.
  std::uint64_t number_of(const std::shared_ptr<const config_snapshot>& g);

 private:
  std::mutex mutex_;
  std::weak_ptr<const config_snapshot> last_;
  std::uint64_t number_ = 0;
  std::shared_ptr<const std::string> state_;
  time_point made_{};
};

/// One of a bounded number of places, from its construction to its destruction, if there was one.
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
