#pragma once

#include "canigo/cancel.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"

#include <asio/awaitable.hpp>
#include <asio/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

namespace canigo::redis {

namespace detail {
class ledger;
struct holding;
}  // namespace detail

/// A permission to run, from a redis::semaphore or a redis::limiter. The owner holds it until it is released or
/// destroyed, or until its lease ends. The permit of a limiter without a cap has no lease, and is never lost.
///
/// The process renews the lease as long as Redis answers. If Redis does not answer, the permit is lost before Redis
/// grants it to another caller: lost() completes, and wrap() cancels its operation. If a process is suspended beyond
/// its lease, it notices the loss when it resumes. token() rises with every grant, so other systems can refuse what
/// such a process wrote in the meantime.
///
/// A permit may outlive its semaphore and the execution context. If the semaphore is destroyed first, the permit's
/// lease is still renewed. The permit may be destroyed on any thread.
/// Threads: one thread at a time may use a permit.
class [[nodiscard]] permit {
 public:
  permit() noexcept = default;
  permit(permit&& other) noexcept = default;
  permit& operator=(permit&& other) noexcept {
    permit taken{std::move(other)};
    std::swap(holding_, taken.holding_);
    return *this;
  }
  ~permit() { release(); }

  /// Gives back everything that the permit holds. Returns false if the permit holds nothing, because it was released or
  /// lost before. Then the call frees no slot, in particular no slot of another caller.
  bool release() noexcept;

  /// The fencing token: greater than those of all earlier grants by Redis, to any caller. 0 for an empty permit, and
  /// for a permit that was granted without Redis. A permit from the reserve (option `horizon`) has the token of the
  /// latest grant to this process, so other processes may have greater tokens.
  std::uint64_t token() const noexcept;
  /// The alternative of a limiter that granted this permit: its index, and its name. If no alternative granted it:
  /// no_alternative, and an empty name. The name is valid as long as the permit is held.
  std::size_t alternative() const noexcept;
  std::string_view alternative_name() const noexcept;
  /// The weight of a semaphore's permit, 1 for a limiter's permit; 0 once the permit is released or lost.
  std::uint64_t held() const noexcept;
  explicit operator bool() const noexcept { return held() != 0; }

  /// Reports how many tokens the operation really used. This replaces the requested number, and an earlier settle().
  ///
  /// If more tokens were used, the rates of the limiter are charged the difference, and may get into debt. If fewer
  /// were used, they get the difference back, up to their bursts. Redis is told immediately, and each difference counts
  /// once, even if an answer is lost. If the limiter has several units, `used` counts tokens of the first unit. For a
  /// semaphore, and for a permit that was granted without Redis, nothing changes.
  ///
  /// Call it before release(); it also works after the lease was lost. An empty permit settles nothing.
  /// Throws std::system_error (errc::invalid_argument) for more than 2^31.
  void settle(std::uint64_t used);
  /// Like settle(used), for one unit of a limiter, given by its name or number: `p.settle("tokens", 1130)`.
  ///
  /// Throws std::system_error (errc::invalid_argument), also if the limiter has no such unit.
  void settle(unit_key unit, std::uint64_t used);

  /// Waits until the lease is lost.
  ///
  /// Errors: errc::stopped if the permit is empty, or released meanwhile. Cancellation: terminal, partial, total.
  net::awaitable<void> lost() const;

  /// Runs `op`, and cancels it when the lease is lost. Then wrap() ends with errc::lease_lost, unless `op` still
  /// returns a result.
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T> op) const {
    return run(holding_, std::move(op));
  }

 private:
  friend class detail::ledger;
  explicit permit(std::shared_ptr<detail::holding> h) noexcept : holding_{std::move(h)} {}
  static cancel_source& end_of(detail::holding& h) noexcept;
  static bool is_lost(const detail::holding& h) noexcept;

  template <class T>
  static net::awaitable<T> run(std::shared_ptr<detail::holding> h, net::awaitable<T> op) {
    if (h == nullptr || is_lost(*h)) throw std::system_error{make_error_code(errc::lease_lost)};
    try {
      co_return co_await end_of(*h).wrap(std::move(op));
    } catch (const std::system_error& e) {
      if (e.code() != net::error::operation_aborted || !is_lost(*h)) throw;
    }
    throw std::system_error{make_error_code(errc::lease_lost)};
  }

  std::shared_ptr<detail::holding> holding_;
};

}  // namespace canigo::redis
