#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>

namespace canigo::detail {

/// The functions of a resource_pool for the resources of its workers. Several workers may call them at once.
class pool_resources {
 public:
  virtual ~pool_resources() = default;

  virtual net::awaitable<void*> make() = 0;
  /// Whether the resource is still good.
  virtual net::awaitable<bool> check(void* resource) = 0;
  /// Repairs the resource after an operation failed. Throws if that can't be done.
  virtual net::awaitable<void> reset(void* resource) = 0;
  /// Closes the resource. Frees it in any case.
  virtual net::awaitable<void> destroy(void* resource) = 0;
  /// Frees the resource without closing it, because the execution context goes.
  virtual void discard(void* resource) noexcept = 0;

  bool has_check = false;
  bool has_reset = false;
  duration idle_timeout = duration::max();
  duration call_timeout = duration::max();  // the time limit of each of these functions but the last
  std::size_t min_idle = 0;
};

}  // namespace canigo::detail
