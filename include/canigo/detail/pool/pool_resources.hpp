#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>

namespace canigo::detail {

/// How the workers of a pool come by their resources. An object of the pool's; called by one worker or several at once.
class pool_resources {
 public:
  virtual ~pool_resources() = default;

  virtual net::awaitable<void*> make(std::size_t worker) = 0;
  /// Whether it is still good.
  virtual net::awaitable<bool> check(void* resource) = 0;
  /// Puts it right after an operation failed; throws if that can't be done.
  virtual net::awaitable<void> reset(void* resource) = 0;
  /// Takes leave of it, and frees it in any case.
  virtual net::awaitable<void> destroy(void* resource) = 0;
  /// Frees it without a word: the execution context is going away.
  virtual void discard(void* resource) noexcept = 0;

  bool has_check = false;
  bool has_reset = false;
  duration idle_timeout = duration::max();
  duration call_timeout = duration::max();  // of each of these functions but the last
  std::size_t min_idle = 0;
};

}  // namespace canigo::detail
