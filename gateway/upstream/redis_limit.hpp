#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/limiter.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include "gateway/config/config.hpp"

#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::gateway {

/// The most calls of an instance that ask Redis at once. The others wait in the instance, where flows share and the
/// order is exact.
inline constexpr std::uint64_t most_ahead = 8;

/// The most calls of this instance that may be under way: the whole cap, or its share if each instance counts for
/// itself.
std::uint64_t own_concurrency(const upstream& u) noexcept;

/// An upstream's limits across instances. A call asks them once the limits of its own instance have granted it.
///
/// With `on_redis_failure = "closed"` Redis keeps rates and concurrency. Otherwise it keeps the rates alone: while
/// Redis is away, an instance does not know how many calls of other instances are under way.
/// Threads: any.
class redis_limit {
 public:
  /// Throws system_error for a value that Redis can't count.
  redis_limit(redis::client& store, const config& c, const upstream& u);
  redis_limit(const redis_limit&) = delete;
  redis_limit& operator=(const redis_limit&) = delete;

  /// Waits for a grant by the limits of all instances. `slot` ends the wait.
  ///
  /// Errors: errc::deadline_unreachable at once if Redis could not grant it in time; those of redis::limiter.
  net::awaitable<redis::permit> acquire(request ask, net::cancellation_slot slot, error_code& error);
  /// Takes a grant if there is one at once; empty: no grant is possible now.
  net::awaitable<redis::permit> acquire_now(request ask);

  /// Whether permits have leases, which may be lost.
  bool has_leases() const noexcept { return is_closed_; }
  /// No instance sends a call before `until`. A pause that is on is only made longer.
  void pause_until(time_point until);
  /// Changes the terms of all instances, at once. `before`: the rates until now.
  void change(const std::vector<rate_limit>& before, const upstream& next);
  /// How long even the most important call would have to wait now.
  duration least_wait() const;
  redis::limit_stats stats() const { return limit_.stats(); }

 private:
  void note_silence(duration waited) noexcept;

  const bool is_closed_;
  redis::limiter limit_;
  std::uint64_t most_;
  std::atomic<duration::rep> silent_until_{0};  // Redis does not answer: no call asks it before then
};

/// Whether the error is a failure of Redis, and no decision of a limit.
bool is_store_failure(const error_code& error) noexcept;

}  // namespace canigo::gateway
