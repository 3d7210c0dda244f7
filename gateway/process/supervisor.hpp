#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Reports the state of the process to the service manager that has started it, by the protocol of sd_notify(3).
///
/// A supervisor does nothing if the environment has no NOTIFY_SOCKET, because then there is no manager.
class supervisor {
 public:
  /// Reads NOTIFY_SOCKET and the settings of the watchdog from the environment.
  supervisor();
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Sends lines such as "READY=1". They are lost if the manager does not receive them.
  void tell(std::string_view lines) noexcept;
  /// Reports that a reload begins now.
  void tell_reloading() noexcept;
  /// The interval at which the manager expects "WATCHDOG=1"; none if it expects none.
  std::optional<duration> watchdog() const noexcept { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_;  // the path of the manager's socket; an abstract one begins with NUL
  std::optional<duration> watchdog_;
};

}  // namespace canigo::gateway
