#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Reports the state of the process to the service manager that has started it, by the protocol of sd_notify(3).
///
/// If the environment has no NOTIFY_SOCKET, there is no service manager, and this object does nothing.
class supervisor {
 public:
  /// Reads NOTIFY_SOCKET and the settings of the watchdog from the environment.
  supervisor();
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Sends lines such as "READY=1" to the service manager. If the manager does not receive them, they are lost without
  /// an error.
  void tell(std::string_view lines) noexcept;
  /// Reports to the service manager that a reload begins now.
  void tell_reloading() noexcept;
  /// Returns the interval at which the service manager expects "WATCHDOG=1"; none if it expects no such message.
  std::optional<duration> watchdog() const noexcept { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_;  // the path of the service manager's socket; the path of an abstract socket begins with NUL
  std::optional<duration> watchdog_;
};

}  // namespace canigo::gateway
