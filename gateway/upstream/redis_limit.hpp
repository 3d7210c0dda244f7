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

/// The most calls of an instance that ask Redis for a grant at once. The other calls wait in the instance, where the
/// order is exact and flows have their shares.
inline constexpr std::uint64_t most_ahead = 8;

/// The most calls of this instance that may be under way: the whole cap, or the instance's share of it if each instance
/// counts its own calls only.
std::uint64_t own_concurrency(const upstream& u) noexcept;

/// An upstream's limits across instances. A call waits for them after the limits of its own instance have granted it.
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

  /// Waits for a grant by the limits of all instances. A signal of `slot` cancels the wait.
  ///
  /// Errors: errc::deadline_unreachable at once if Redis could not grant it in time; those of redis::limiter.
  net::awaitable<redis::permit> acquire(request ask, net::cancellation_slot slot, error_code& error);
  /// Asks Redis for a grant without waiting in its queue; empty: no grant is possible now.
  net::awaitable<redis::permit> acquire_now(request ask);

  /// Whether permits have leases, which may be lost.
  bool has_leases() const noexcept { return is_closed_; }
  /// Pauses all instances until `until`. Does not shorten an earlier pause.
  void pause_until(time_point until);
  /// Changes the rates and the cap for all instances at once. `before`: the rates until now.
  void change(const std::vector<rate_limit>& before, const upstream& next);
  /// How long a call of the first class would have to wait now, at least.
  duration least_wait() const;
  redis::limit_stats stats() const { return limit_.stats(); }

 private:
  void note_silence(duration waited) noexcept;

  const bool is_closed_;
  redis::limiter limit_;
  std::uint64_t most_;
  std::atomic<duration::rep> silent_until_{0};  // Redis does not answer: no call asks it before then
};

/// Whether the error is a failure of Redis. If not, it is a decision of a limit.
bool is_store_failure(const error_code& error) noexcept;

}  // namespace canigo::gateway
