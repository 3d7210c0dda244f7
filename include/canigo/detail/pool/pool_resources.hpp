#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>

namespace canigo::detail {

/// The user's functions for the resources of a resource_pool. Several workers may call them at the same time.
class pool_resources {
 public:
  virtual ~pool_resources() = default;

  virtual net::awaitable<void*> make() = 0;
  /// Returns whether the resource is still usable.
  virtual net::awaitable<bool> check(void* resource) = 0;
  /// Repairs the resource after an operation failed. Throws if it can't be repaired.
  virtual net::awaitable<void> reset(void* resource) = 0;
  /// Closes the resource, and frees it even if closing fails.
  virtual net::awaitable<void> destroy(void* resource) = 0;
  /// Frees the resource without closing it, because the execution context is being destroyed.
  virtual void discard(void* resource) noexcept = 0;

  bool has_check = false;
  bool has_reset = false;
  duration idle_timeout = duration::max();
  duration call_timeout = duration::max();  // the time limit of make(), check(), reset() and destroy()
  std::size_t min_idle = 0;
};

}  // namespace canigo::detail
