#pragma once

#include <cstdint>
#include <string_view>
#include <system_error>

namespace canigo::jobs {

/// A call of the store that failed, at the moment of the event.
struct store_failure {
  std::error_code code;        ///< none if the exception has no code
  std::string_view text;       ///< names the place and what to do; valid during the event
  std::uint32_t failures = 1;  ///< in a row
};

/// Learns of what happens to the store of a service, for logs and alarms.
///
/// Threads: any, several at once, so events of one moment may come in any order; no lock is held. Must not throw, and
/// should return soon: a coroutine of the service waits for it.
class store_observer {
 public:
  /// Called when a call failed. Calls of users do not count. The service tries again, less and less often, unless this
  /// failure stops it.
  virtual void store_failed(const store_failure&) noexcept {}
  /// Called when calls succeed again.
  virtual void store_recovered() noexcept {}

 protected:
  ~store_observer() = default;
};

}  // namespace canigo::jobs
