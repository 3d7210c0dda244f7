#pragma once

#include "canigo/cancel.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <asio/error.hpp>

#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

namespace canigo::redis {

namespace detail {
class ledger;
struct holding;
}  // namespace detail

/// Leave to go on, for as long as it is held and its lease lasts: what redis::semaphore hands out. Dropping it gives it
/// back.
///
/// The lease is renewed as long as Redis answers. Where it does not, the permit is lost before anybody else can have
/// it: lost() completes, and what runs in wrap() is cancelled. A process that was paused beyond its lease finds out
/// when it goes on; what it did in between can be refused by token(), which rises with every grant.
///
/// May outlive its semaphore, whose lease goes on for it, and the execution context, and may be dropped on any thread.
/// Threads: one at a time.
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

  /// Gives back what is held. False if nothing was: released before, or lost. Nobody else's place is freed then.
  bool release() noexcept;

  /// The fencing token: greater than that of every grant by Redis before, to anybody; 0 for an empty permit. A permit
  /// that was kept here for a `horizon` has that of the latest grant to this process, so others may have greater ones.
  std::uint64_t token() const noexcept;
  /// The weight; 0 once released or lost.
  std::uint64_t held() const noexcept;
  explicit operator bool() const noexcept { return held() != 0; }

  /// Waits until the lease is lost.
  ///
  /// Errors: errc::stopped if the permit is released meanwhile, or empty. Cancellation: terminal, partial, total.
  net::awaitable<void> lost() const;

  /// Runs `op`, and cancels it when the lease is lost. It then ends with errc::lease_lost, unless it has a result.
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
