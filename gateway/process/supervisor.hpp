#pragma once

#include "canigo/time.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// The service manager that has started the process, told by sd_notify(3)'s protocol how it goes.
///
/// Without one, which is without NOTIFY_SOCKET in the environment, it tells nobody.
class supervisor {
 public:
  /// Reads the environment.
  supervisor();
  ~supervisor();
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  /// Sends such lines as "READY=1". A manager that does not listen is left alone.
  void tell(std::string_view lines) noexcept;
  /// That a reload begins, and since when.
  void tell_reloading() noexcept;
  /// How often it wants to hear "WATCHDOG=1", at least; none: never.
  std::optional<duration> watchdog() const noexcept { return watchdog_; }

 private:
  int socket_ = -1;
  std::string path_;  // an abstract one begins with NUL
  std::optional<duration> watchdog_;
};

}  // namespace canigo::gateway
