#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Tells the service manager that has started the process how it goes, by the protocol of sd_notify(3).
///
/// Without a manager, which is without NOTIFY_SOCKET in the environment, it does nothing.
class supervisor {
 public:
  /// Reads the environment.
  supervisor();
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Sends lines such as "READY=1". If the manager does not listen, they are lost.
  void tell(std::string_view lines) noexcept;
  /// Tells that a reload begins now.
  void tell_reloading() noexcept;
  /// How often the manager wants "WATCHDOG=1", at least; none: never.
  std::optional<duration> watchdog() const noexcept { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_;  // an abstract path begins with NUL
  std::optional<duration> watchdog_;
};

}  // namespace canigo::gateway
