#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
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

/// The max number of an instance's calls that wait in Redis at the same time. Further calls wait in the instance, which
/// keeps their exact order and their flows.
inline constexpr std::uint64_t most_ahead = 8;

/// Returns how many calls to the upstream this instance may run at the same time: with `on_redis_failure = "local"` the
/// instance's share of the cap, otherwise the whole cap.
std::uint64_t own_concurrency(const upstream& u) noexcept;
/// Returns how many calls to this target this instance may run at the same time: with `on_redis_failure = "local"` the
/// instance's share of the target's cap, otherwise the whole cap.
std::uint64_t own_concurrency(const upstream& u, const target& t) noexcept;

/// The limits of an upstream that all instances share. A call waits for these limits after the limits of its own
/// instance have granted the call.
///
/// With `on_redis_failure = "closed"`, Redis keeps the rates and the concurrency. With any other value Redis keeps only
/// the rates, because without an answer of Redis an instance can't know how many calls other instances run. Threads:
/// any.
class redis_limit {
 public:
  /// Throws system_error for a limit that is too large for Redis to count.
  redis_limit(redis::client& store, const config& c, const upstream& u);
  redis_limit(const redis_limit&) = delete;
  redis_limit& operator=(const redis_limit&) = delete;

  /// Waits for a grant by the limits that all instances share. A signal through `slot` cancels the wait.
  ///
  /// `again_at`: if there is no grant before this time, the wait ends then with errc::timed_out.
  ///
  /// Errors: errc::deadline_unreachable, without a wait, if Redis can't grant the request before its deadline; the
  /// errors of redis::limiter.
  net::awaitable<redis::permit> acquire(request ask, net::cancellation_slot slot, error_code& error,
                                        time_point again_at = time_point::max());
  /// Asks Redis for a grant without waiting in the queue in Redis. Returns an empty permit if no grant is possible now.
  net::awaitable<redis::permit> acquire_now(request ask);

  /// Whether the permits of this limit have leases in Redis. A permit loses its lease if Redis does not answer for too
  /// long.
  bool has_leases() const noexcept { return is_closed_; }
  /// Whether Redis has chosen the target that `granted` names. If false, Redis did not answer, and the limits of this
  /// instance choose the target.
  bool has_chosen(const redis::permit& granted) const noexcept {
    return granted.alternative() != no_alternative && (is_closed_ || is_local_ || granted.token() != 0);
  }
  /// Whether `granted` was given without any limit, because Redis did not answer and `on_redis_failure` is "open".
  bool is_unlimited(const redis::permit& granted) const noexcept {
    return !is_closed_ && !is_local_ && granted && granted.token() == 0;
  }
  /// Pauses the upstream for all instances until `until`. If the present pause ends later, that pause stays unchanged.
  /// If the upstream has a list of targets, pauses only the target with the index `target`.
  void pause_until(std::size_t target, time_point until);
  /// Changes the rates and the caps, for all instances at the same time. `before`: the rates before the change.
  void change(const std::vector<rate_limit>& before, const upstream& next);
  /// Stops granting requests, and begins to end this instance's session in Redis. So the permits of this instance
  /// become free soon, instead of at the end of their leases.
  void leave() noexcept { limit_.stop(); }
  /// Whether Redis may still have the session of this instance, although leave() was called.
  bool is_leaving() const {
    const redis::limit_stats s = limit_.stats();
    return s.has_session && s.available;
  }
  /// Returns the least time that a new call of the most important class must wait.
  duration least_wait() const;
  redis::limit_stats stats() const { return limit_.stats(); }
  /// Returns when the pause of the upstream ends, as far as this instance knows. A response to any instance may have
  /// caused this pause. If the upstream has a list of targets, returns when the pause of the target with the index
  /// `target` ends.
  time_point paused_until(std::size_t target) const;

 private:
  void note_silence(duration waited) noexcept;

  const bool is_closed_;
  const bool is_local_;
  redis::limiter limit_;
  std::uint64_t most_;
  std::vector<target> targets_;                 // the targets, with the settings that Redis has now
  std::atomic<duration::rep> silent_until_{0};  // until this time no call asks Redis, because Redis did not answer
};

/// Whether the error is a failure of Redis; any other error is a decision of a limit.
bool is_store_failure(const error_code& error) noexcept;

}  // namespace canigo::gateway
