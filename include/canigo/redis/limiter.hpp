#pragma once

#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/failure_mode.hpp"
#include "canigo/redis/limit_handle.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace canigo::redis {

struct limiter_options {
  /// All rates must admit a request; up to 16 rates of up to 5 units, or none if there is a cap. Each burst is 1 to
  /// 2^31, and each bucket must fill in less than 285 years. If a rate is n tokens in a whole number of µs, in lowest
  /// terms, n times the burst must also be below 2^53. The text of an error names the greatest burst. `initial_tokens`
  /// is 0: the buckets start empty. `window` is rate_window::average.
  std::vector<rate_limit> rates = {};
  std::uint64_t concurrency = unlimited;     ///< most permits out at once, in all processes; 1 to 2^31, or unlimited
  duration lease = std::chrono::seconds{5};  ///< with a cap: how long a crashed holder keeps it; 10 ms to 1 day
  int priorities = 1;                        ///< classes 0 (first) … priorities-1; 1 to 256
  std::size_t queue_limit = 10'000;          ///< most waiters of this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a newcomer; only this process's waiters are evicted
  failure_mode on_failure = failure_mode::closed();  ///< with a cap, it must be closed
  duration give_up = std::chrono::seconds{10};       ///< closed: waiters end after so long without answer; max: never
  std::string space = "default";                     ///< separates limits of the same name in one Redis
  bool quarantine = true;  ///< with a cap: grant nothing for one lease after Redis lost its data; off: unsafe
};

/// Several limits as one, for all processes together. All rates and the cap on concurrency admit a request in one step
/// of Redis, or none of them does.
///
/// So a request holds nothing of one limit while it waits for another. Each rate keeps the promises of
/// redis::scheduler; the cap, the leases and the queue keep those of redis::semaphore. A request takes
/// `request.tokens` of every rate, and one place of the cap. If the real usage is known only afterwards, settle it with
/// the permit: `p.settle(used)`.
///
/// Rates may count different units, such as requests and tokens. `request.tokens` is then the amount of the first
/// rate's unit, and `request.amounts` names those of the others: `{.amounts = {{"tokens", 1200}}}`. If a request names
/// only some units, it takes nothing of the rest, and does not wait for them, even if they are in debt. Settle each
/// unit by its name: `p.settle("tokens", 1130)`.
///
/// All processes must have the same number of rates, with the same units in the same order, and either all of them or
/// none a cap. Otherwise acquires end with redis::error::other_shape as long as the others use the limit, in every
/// failure mode. All other options should be the same. If they differ, those of the process that called last count. The
/// setters and pause_until() change the limit for all processes, as those of redis::scheduler do.
///
/// A permit of a limiter without a cap is only for settling: it has no lease, and a crash loses nothing. A permit of a
/// limiter with a cap ends with its lease, as that of a semaphore does.
///
/// The members for asking, pausing and stopping are those of every limit in Redis: redis::limit_handle.
///
/// Errors: as redis::semaphore. errc::invalid_argument for a unit that the limiter does not have, or that is named
/// twice; the text of the exception names the unit and lists those that there are. errc::too_large for more than the
/// smallest burst of a unit; the text names the unit, the amount and the range. Nothing is consumed then. Without a cap
/// there is no errc::lease_lost. If `on_failure` is not closed, errc::store_unavailable and redis::error come as for
/// redis::scheduler.
/// Cancellation: terminal, partial, total. The request loses its place in the queue. A grant that was on its way goes
/// back, of every unit.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
class limiter : public limit_handle<detail::place_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  limiter(client& c, std::string_view name, const limiter_options& options);

  /// Asks by class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  [[nodiscard]] net::awaitable<permit> acquire(int priority) { return acquire(request{.priority = priority}); }

  /// Changes a limit for all processes and their waiters, at once. A rate keeps its tokens, up to the new burst.
  ///
  /// Throws std::system_error, errc::invalid_argument, for an unknown index and for a value outside its range, and for
  /// the concurrency of a limiter that was made without one. Nothing changes then.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

  /// A lower bound on the wait of `r` if it came now, from the last answer of Redis and the waiters of this process. It
  /// knows the rates and a pause, but not when permits come back. 0 before the first call; max when the context has
  /// gone.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;
};

}  // namespace canigo::redis
