#pragma once

#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::jobs::detail {

/// Finds out whether notifications reach a connection that listens. Behind a proxy that lends server connections for
/// single transactions, notifications go to another client, or to none.
///
/// A direct connection is recognized by the number of its server process, which a proxy makes up. Behind a proxy,
/// another connection sends a test notification, which must arrive.
class postgres_hearing {
 public:
  enum class state : std::uint8_t {
    works,    ///< notifications reach the connection
    unknown,  ///< it is not known yet whether notifications reach the connection
    lent,     ///< a proxy lends the server connection, so notifications do not arrive
  };
  /// The time after which a test notification counts as lost.
  static constexpr duration longest_way = std::chrono::seconds{5};

  /// `told`: the process that was named when the connection was made. `pid`: the process in which the connection
  /// listens.
  postgres_hearing(int told, int pid, std::string probe)
      : pid_{pid}, state_{told == pid ? state::works : state::unknown}, probe_{std::move(probe)} {}

  /// Whether another connection should send the notification probe().
  bool needs_probe() const noexcept { return state_ == state::unknown; }
  const std::string& probe() const noexcept { return probe_; }
  /// Notes that the test notification probe() was sent.
  void has_sent(time_point now) noexcept { sent_at_ = now; }

  /// Call it when a notification of a process has come. Returns true if it is about a change by another connection.
  bool hear(int pid, std::string_view payload) noexcept;
  /// Notes the server process that has carried out a transaction of this connection.
  void note_process(int pid) noexcept;
  /// Decides whether the test notification is lost. Precondition: hear() was called for all notifications that have
  /// arrived.
  void judge(time_point now) noexcept;
  state now() const noexcept { return state_; }

 private:
  int pid_;
  state state_;
  bool is_shared_ = false;  // whether all clients of the server share one session
  std::string probe_;
  time_point sent_at_ = time_point::max();
};

}  // namespace canigo::jobs::detail
