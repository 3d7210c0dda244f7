#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::jobs::detail {

/// Finds out whether notifications reach a connection that has sent LISTEN. A proxy may lend a server connection to a
/// client for a single transaction. Notifications then go to another client of the proxy, or to none.
///
/// The server names the number of its process when the connection is made; a proxy names an invented number. If the
/// named number is the true one, the connection is direct. Otherwise another connection sends a test notification,
/// which must arrive.
class postgres_hearing {
 public:
  enum class state : std::uint8_t {
    works,    ///< notifications reach the connection
    unknown,  ///< it is not known yet whether notifications reach the connection
    lent,     ///< notifications do not arrive, because a proxy lends the server connection to several clients
  };
  /// The time after which a test notification counts as lost.
  static constexpr duration longest_way = std::chrono::seconds{5};

  /// `told`: the number of the server process that the server, or a proxy, named when the connection was made. `pid`:
  /// the number of the server process in which the connection listens.
  postgres_hearing(int told, int pid, std::string probe)
      : pid_{pid}, state_{told == pid ? state::works : state::unknown}, probe_{std::move(probe)} {}

  /// Whether another connection should send probe(), the test notification.
  bool needs_probe() const noexcept { return state_ == state::unknown; }
  const std::string& probe() const noexcept { return probe_; }
  /// Records that the test notification probe() was sent at `now`.
  void has_sent(time_point now) noexcept { sent_at_ = now; }

  /// Call it when a notification of the server process `pid` has arrived. Returns false only if it is certain that the
  /// notification is about a change by this connection.
  bool hear(int pid, std::string_view payload) noexcept;
  /// Call it with the number of the server process that has executed a transaction of this connection. If this is not
  /// the process in which the connection listens, the state becomes `lent`.
  void note_process(int pid) noexcept;
  /// Decides whether the test notification is lost. Precondition: hear() was called for all notifications that have
  /// arrived.
  void judge(time_point now) noexcept;
  state now() const noexcept { return state_; }

 private:
  int pid_;
  state state_;
  bool is_shared_ = false;  // whether all clients of the server share one session, as in PGlite
  std::string probe_;
  time_point sent_at_ = time_point::max();
};

}  // namespace canigo::jobs::detail
