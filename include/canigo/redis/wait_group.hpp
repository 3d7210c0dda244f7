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

/// A redis::semaphore by names instead of permits: `id = co_await group.add()`, later `group.done(id)`.
///
/// For code that can't carry a permit from where work begins to where it ends. The lease of each name is renewed by the
/// process that added it, and ends with it.
/// Threads: any, all members, at once.
class wait_group {
 public:
  /// Uses `slots`, which must live longer.
  explicit wait_group(semaphore& slots);
  ~wait_group();
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Waits for a place, and names it; no two names are the same, in all processes.
  ///
  /// Errors, cancellation: as redis::semaphore::acquire.
  net::awaitable<std::string> add(int priority = 0);

  /// Gives the place back. False for a name that is not out, here: given back before, its lease lost, or unknown.
  /// Nobody else's place is freed then.
  bool done(std::string_view id) noexcept;

  /// The names that are out, here.
  std::size_t count() const;

 private:
  struct places;
  static net::awaitable<std::string> add(std::shared_ptr<places> p, semaphore& slots, int priority);

  semaphore& slots_;
  std::shared_ptr<places> places_;
};

}  // namespace canigo::redis
