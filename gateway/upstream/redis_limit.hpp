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

/// The max number of calls of an instance that wait in Redis at the same time. Further calls wait in the instance,
/// which keeps their exact order and their flows.
inline constexpr std::uint64_t most_ahead = 8;

/// Returns how many calls this instance may run at once: the whole cap, or the instance's share of the cap if each
/// instance counts only its own calls.
std::uint64_t own_concurrency(const upstream& u) noexcept;
/// Returns how many calls to this target of the upstream the instance may run at once, by the same rule.
std::uint64_t own_concurrency(const upstream& u, const target& t) noexcept;

/// The limits that all instances share for an upstream. A call waits for them after its own instance's limits have
/// granted it.
///
/// With `on_redis_failure = "closed"` Redis keeps the rates and the concurrency. Otherwise it keeps only the rates:
/// while Redis does not answer, an instance can't know how many calls other instances run.
/// Threads: any.
class redis_limit {
 public:
  /// Throws system_error for a limit that is too large for Redis to count.
  redis_limit(redis::client& store, const config& c, const upstream& u);
  redis_limit(const redis_limit&) = delete;
  redis_limit& operator=(const redis_limit&) = delete;

  /// Waits for a grant by the limits of all instances. A signal through `slot` cancels the wait.
  ///
  /// `again_at`: the time at which the wait ends with errc::timed_out if there was no grant before.
  ///
  /// Errors: errc::deadline_unreachable at once if Redis can't grant the request before its deadline; the errors of
  /// redis::limiter.
  net::awaitable<redis::permit> acquire(request ask, net::cancellation_slot slot, error_code& error,
                                        time_point again_at = time_point::max());
  /// Asks Redis for a grant without waiting in its queue. Returns an empty permit if no grant is possible now.
  net::awaitable<redis::permit> acquire_now(request ask);

  /// Whether permits have leases, which can be lost when Redis does not answer.
  bool has_leases() const noexcept { return is_closed_; }
  /// Whether Redis has chosen the target that `granted` names. If not, Redis did not answer, and each target of this
  /// instance uses its own limits.
  bool has_chosen(const redis::permit& granted) const noexcept {
    return granted.alternative() != no_alternative && (is_closed_ || is_local_ || granted.token() != 0);
  }
  /// Whether `granted` is of no limit at all, because Redis did not answer and `on_redis_failure` is "open".
  bool is_unlimited(const redis::permit& granted) const noexcept {
    return !is_closed_ && !is_local_ && granted && granted.token() == 0;
  }
  /// Pauses all instances until `until`. It never shortens an earlier pause. If the upstream has a list of targets,
  /// only this target is paused.
  void pause_until(std::size_t target, time_point until);
  /// Changes the rates and the caps for all instances at once. `before`: the present rates.
  void change(const std::vector<rate_limit>& before, const upstream& next);
  /// Grants nothing more, and begins to end this instance's session in Redis. So its places are free at once, and not
  /// at the end of its lease.
  void leave() noexcept { limit_.stop(); }
  /// Whether Redis may still have a session of this instance, which leave() is about to end.
  bool is_leaving() const {
    const redis::limit_stats s = limit_.stats();
    return s.has_session && s.available;
  }
  /// Returns the minimal wait of a new call of the most important class.
  duration least_wait() const;
  redis::limit_stats stats() const { return limit_.stats(); }
  /// Returns the end of the pause that a response to any instance has asked for, as far as this instance knows it. If
  /// the upstream has a list of targets, the pause is that of this target.
  time_point paused_until(std::size_t target) const;

 private:
  void note_silence(duration waited) noexcept;

  const bool is_closed_;
  const bool is_local_;
  redis::limiter limit_;
  std::uint64_t most_;
  std::vector<target> targets_;                 // the targets with the settings that Redis has
  std::atomic<duration::rep> silent_until_{0};  // no call asks Redis before this time, because Redis did not answer
};

/// Whether the error is a failure of Redis. Any other error is a decision of a limit.
bool is_store_failure(const error_code& error) noexcept;

}  // namespace canigo::gateway
