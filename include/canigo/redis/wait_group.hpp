#pragma once

#include "canigo/net.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/redis/semaphore.hpp"

#include <asio/awaitable.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace canigo::redis {

/// A redis::semaphore with names instead of permits: `id = co_await group.add()`, later `group.done(id)`.
///
/// For code that can't carry a permit from the start of the work to its end. The process that added a name renews its
/// lease, which ends with that process. Unlike canigo::wait_group it limits the work, and has no wait for its end.
/// Threads: any, all members, at once.
/// Lifetime: destroying it gives its places back.
class wait_group {
 public:
  /// Uses `slots`, which must live longer.
  explicit wait_group(semaphore& slots);
  ~wait_group();
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Waits for a place, and returns its name. No two names are the same, in all processes.
  ///
  /// Errors, cancellation: as redis::semaphore::acquire.
  net::awaitable<std::string> add(int priority = 0);

  /// Gives the place back. Returns false for a name that is not out here: given back before, lost with its lease, or
  /// unknown. Then no other place is freed.
  bool done(std::string_view id) noexcept;

  /// The number of names that are out, of this process.
  std::size_t count() const;

 private:
  struct places;
  static net::awaitable<std::string> add(std::shared_ptr<places> p, semaphore& slots, int priority);

  semaphore& slots_;
  std::shared_ptr<places> places_;
};

}  // namespace canigo::redis
