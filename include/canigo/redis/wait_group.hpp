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
/// Use it if your code can't keep a permit object from the start of the work to its end. The process that added a name
/// renews the lease of the name's slot. If that process ends, the lease ends, too. Unlike canigo::wait_group, this
/// class limits how much work runs at the same time, and can't wait until the work has ended.
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying this object gives back the slots of all its names.
class wait_group {
 public:
  /// Takes the slots from the semaphore `slots`, which must outlive this object.
  explicit wait_group(semaphore& slots);
  ~wait_group();
  wait_group(const wait_group&) = delete;
  wait_group& operator=(const wait_group&) = delete;

  /// Waits for a slot, and returns a name for it that is unique in all processes.
  ///
  /// Errors and cancellation: as for redis::semaphore::acquire().
  net::awaitable<std::string> add(int priority = 0);

  /// Gives back the slot of this name. Returns false if this object has no such name: it was already given back, lost
  /// with its lease, or never added. In that case no other slot is freed.
  bool done(std::string_view id) noexcept;

  /// The number of names in use in this process.
  std::size_t count() const;

 private:
  struct places;
  static net::awaitable<std::string> add(std::shared_ptr<places> p, semaphore& slots, int priority);

  semaphore& slots_;
  std::shared_ptr<places> places_;
};

}  // namespace canigo::redis
