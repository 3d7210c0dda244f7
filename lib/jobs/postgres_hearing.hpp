#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::jobs::detail {

/// Whether notifications reach a connection that listens. A proxy may lend its connections to the server by
/// transaction; then they go to another client, or to none.
///
/// A connection to the server itself is known by the number of its process, which a proxy invents. Behind a proxy
/// another connection sends a notification, which has to arrive.
class postgres_hearing {
 public:
  enum class state : std::uint8_t {
    works,    ///< notifications arrive
    unknown,  ///< no notification has shown that yet
    lent,     ///< notifications do not arrive
  };
  /// A notification that has not come after this time counts as lost.
  static constexpr duration longest_way = std::chrono::seconds{5};

  /// `told` is the process that was named when the connection was made; `pid` is the one that it listens with.
  postgres_hearing(int told, int pid, std::string probe)
      : pid_{pid}, state_{told == pid ? state::works : state::unknown}, probe_{std::move(probe)} {}

  /// Whether another connection should send probe().
  bool needs_probe() const noexcept { return state_ == state::unknown; }
  const std::string& probe() const noexcept { return probe_; }
  /// Notes that the probe was sent.
  void has_sent(time_point now) noexcept { sent_at_ = now; }

  /// Call it when a notification of a process has come. True if other connections have news.
  bool hear(int pid, std::string_view payload) noexcept;
  /// Notes that a process carried out a transaction.
  void note_process(int pid) noexcept;
  /// Every notification that has arrived by now was heard.
  void judge(time_point now) noexcept;
  state now() const noexcept { return state_; }

 private:
  int pid_;
  state state_;
  bool is_shared_ = false;  // all clients have one session
  std::string probe_;
  time_point sent_at_ = time_point::max();
};

}  // namespace canigo::jobs::detail
