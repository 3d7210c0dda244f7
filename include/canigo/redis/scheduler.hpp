#pragma once

#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/failure_mode.hpp"
#include "canigo/redis/limit_handle.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::redis {

struct scheduler_options {
  canigo::rate rate;  ///< tokens released per period, for all processes together
  /// Max number of stored tokens, and max number of tokens of one request; 1 to 2^31. The bucket must fill in less than
  /// 285 years. Written as a reduced fraction, `rate` is n tokens per m µs with whole n, m. Then n times `burst` must
  /// also be below 2^53. The error message names the greatest allowed burst.
  std::uint64_t burst = 1;
  int priorities = 1;                ///< number of priority classes, 1 to 256; class 0 goes first
  std::size_t queue_limit = 10'000;  ///< max number of waiters in this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a new request; only waiters of this process are evicted
  failure_mode on_failure = failure_mode::closed();  ///< behavior while Redis does not answer
  /// if on_failure is closed: waiters end after this time without an answer of Redis; max: never
  duration give_up = std::chrono::seconds{10};
  std::string space = "default";  ///< separates limits of the same name in one Redis
  /// For how long this process may hold tokens in reserve and grant them without a call of Redis; up to 1 min. 0: no
  /// reserve.
  duration horizon{};
};

/// A rate limit with priorities that all processes share: `co_await quota.acquire(priority)`.
///
/// Requests, order and promises are those of canigo::scheduler. Redis computes in whole microseconds of its own clock,
/// and holds the queue. The bucket starts empty, also after Redis has lost its data, so no window exceeds the promised
/// number of tokens. If the clock of Redis is set forward, at most one burst is released. The clocks of clients do not
/// matter.
///
/// All processes should have the same options. If they differ, the options of the process that called last are used.
/// set_rate(), set_burst() and pause_until() change the limit for all processes. A change overrides the options until
/// Redis loses its data and no running process knows the change. These functions return immediately. The process tells
/// Redis as soon as Redis answers. If Redis does not answer within `give_up`, the change is dropped. Refunds and
/// charges are never dropped: after `give_up` they are sent with the next call of Redis.
///
/// With a `horizon`, a call of Redis takes additional tokens as a reserve if no request waits and tokens are available.
/// The next acquires in this process then need no round trip. If the whole reserve is used within the horizon, the next
/// call of Redis takes twice as many tokens. A reserve exceeds neither the burst nor the number of tokens released
/// within the horizon. Unused tokens are given back after the horizon, or immediately if a request of another process
/// waits. After that, the next call of Redis takes only one token. The disadvantages:
/// - a window of length t holds up to burst + rate · (t + horizon) tokens;
/// - a token of the reserve goes to the first waiter of this process;
/// - this process learns of a pause by another process only with its next call of Redis.
///
/// The base class redis::limit_handle has the members for acquiring, pausing and stopping.
///
/// Errors: as for redis::semaphore, without lease_lost. The codes of redis::form_category() occur in every mode.
/// errc::store_unavailable and redis::error occur only if `on_failure` is closed, with three exceptions:
/// - redis::error::other_shape occurs in every mode;
/// - if Redis stops answering, the first request ends with errc::store_unavailable in every mode if its deadline is
///   less than 0.2 s away;
/// - during an outage, a request above this process's share of a burst ends with errc::store_unavailable.
/// Cancellation: terminal, partial, total. The request leaves the queue. A token that Redis has already sent is given
/// back.
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying this object ends every waiter with errc::stopped. The execution context may be destroyed first.
class scheduler : public limit_handle<detail::quota_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  scheduler(client& c, std::string_view name, const scheduler_options& options);

  /// The overloads below take only a priority class, and request one token. The base class limit_handle has the other
  /// overloads, async_acquire(), pause(), resume() and stop().
  using limit_handle::acquire;
  using limit_handle::acquire_now;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(int priority) {
    return acquire(request{.priority = priority});
  }
  [[nodiscard("co_await it")]] net::awaitable<bool> acquire_now(int priority) {
    return acquire_now(request{.priority = priority});
  }
  [[nodiscard("was it granted?")]] bool try_acquire(int priority) { return try_acquire(request{.priority = priority}); }

  /// Gives back granted tokens that were not used. Tokens beyond the burst are lost. The refund is reported to Redis
  /// immediately.
  void refund(std::uint64_t tokens);
  /// Subtracts tokens that the caller has used without a request. If the number of available tokens falls below zero,
  /// the next grant in any process waits until this number is zero again.
  ///
  /// refund() and charge() throw std::system_error (errc::invalid_argument) for more than 2^31 tokens at a time.
  void charge(std::uint64_t tokens);

  /// set_rate() and set_burst() change the limit for all processes and their waiters immediately. Available tokens are
  /// kept, up to the new burst.
  ///
  /// Throws std::system_error (errc::invalid_argument) if the new value is out of range; the limit then stays
  /// unchanged. The error text names the value and the range.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// A lower bound on the time that `r` would wait if it arrived now, computed from the latest answer of Redis and the
  /// waiters of this process. Later requests of other processes may make the wait longer. 0 before the first call; max
  /// after the destruction of the context.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;
};

}  // namespace canigo::redis
