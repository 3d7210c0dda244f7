#pragma once

#include <cstdint>
#include <string_view>
#include <system_error>

namespace canigo::jobs {

/// A failed call of the store, as reported to an observer.
struct store_failure {
  std::error_code code;  ///< the code of the exception; empty if it has none
  /// the text of the exception: it names the file or server, and tells the operator how to mend the failure; valid only
  /// until the observer's function returns
  std::string_view text;
  std::uint32_t failures = 1;  ///< number of failed calls in a row, including this one
};

/// The base class of observers. A service calls its observer when calls of its store fail, and when they succeed again.
/// An observer can write logs or raise alarms.
///
/// Threads: several threads may call an observer at the same time, so events may come in any order. The service holds
/// no lock during these calls. The functions of an observer must not throw. They should return soon, because a
/// coroutine of the service waits for them.
class store_observer {
 public:
  /// Called when a call of the store has failed, except for calls that users made. The service makes the call again, at
  /// growing intervals, unless this failure stops the service.
  virtual void store_failed(const store_failure&) noexcept {}
  /// Called when calls of the store succeed again after failures.
  virtual void store_recovered() noexcept {}

 protected:
  ~store_observer() = default;
};

}  // namespace canigo::jobs
