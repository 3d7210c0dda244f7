#pragma once

#include "canigo/backoff.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>

namespace canigo {

/// An operation throws this to say that it has failed, and that the resource or state of its worker is broken, too.
class fatal_error : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

/// How often the workers of a pool may break before the pool stops, and how long a broken worker waits.
struct restart_policy {
  std::uint32_t limit = 10;  ///< restarts of all workers together within `within`; one more stops the pool; 0 to 10'000
  duration within = std::chrono::minutes{1};  ///< more than 0
  canigo::backoff backoff = {};               ///< before a worker starts again, by its failures in a row
  /// Which errors of an operation mean a broken worker. Null: fatal_error only. Called with no lock held.
  bool (*is_fatal)(const std::exception_ptr& error) = nullptr;
};

}  // namespace canigo
