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
  canigo::rate rate;  ///< tokens released per period, to all processes together
  /// Most tokens kept while no request comes, and most for one request; 1 to 2^31. The bucket must fill in less than
  /// 285 years. If the rate is n tokens in a whole number of µs, in lowest terms, n times the burst must also be below
  /// 2^53. The text of an error names the greatest burst.
  std::uint64_t burst = 1;
  int priorities = 1;                ///< classes 0 (first) … priorities-1; 1 to 256
  std::size_t queue_limit = 10'000;  ///< most waiters of this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a newcomer; only this process's waiters are evicted
  failure_mode on_failure = failure_mode::closed();  ///< the rule while Redis does not answer
  duration give_up = std::chrono::seconds{10};       ///< closed: waiters end after so long without answer; max: never
  std::string space = "default";                     ///< separates limits of the same name in one Redis
  duration horizon{};  ///< for so long, tokens may be taken ahead and used here without asking Redis; up to 1 min
};

/// Lets callers through at a rate that all processes share: `co_await quota.acquire(priority)`.
///
/// Requests, order and promises are those of canigo::scheduler. The arithmetic is in whole microseconds of Redis'
/// clock, and the queue is in Redis. The bucket starts empty, also after Redis has lost its data, so no window holds
/// more than promised. If Redis' clock is set forward, it releases one burst at most. The clocks of clients do not
/// matter.
///
/// All processes should have the same options. If they differ, those of the process that called last count.
/// set_rate(), set_burst() and pause_until() change the limit for all processes. The change overrules the options
/// until Redis loses its data and no process is left that knows it. The calls return at once. The process tells Redis
/// as soon as Redis answers, or drops the change after `give_up`. It drops no refund and no charge: after `give_up`
/// they travel with the next call.
///
/// With a `horizon`, a call takes tokens ahead if no request waits and tokens are available. The next acquires in this
/// process then need no round trip. If all of them are used within the horizon, the next call takes twice as many, up
/// to the tokens that come in within the horizon and to the burst. Unused ones go back, at once if a request of another
/// process waits; the next call then takes one. The price:
/// - a window of length t holds up to burst + rate · (t + horizon) tokens;
/// - a token that was taken ahead goes to the first waiter of this process;
/// - this process learns of another one's pause with its next call.
///
/// The members for asking, pausing and stopping are those of every limit in Redis: redis::limit_handle.
///
/// Errors: as redis::semaphore, without lease_lost. The codes of redis::form_category() come in every
/// mode. errc::store_unavailable and redis::error come only if `on_failure` is closed, with three exceptions:
/// - redis::error::other_shape comes in every mode;
/// - the first request of an outage in which Redis is silent ends with errc::store_unavailable in every mode if its
///   deadline is less than 0.2 s away;
/// - a request above this process's share of a burst ends with errc::store_unavailable in an outage.
/// Cancellation: terminal, partial, total. The request loses its place in the queue; a token that was on its way goes
/// back.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
class scheduler : public limit_handle<detail::quota_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  scheduler(client& c, std::string_view name, const scheduler_options& options);

  /// Asks by class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
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

  /// Gives back tokens that were granted and not used. Tokens beyond the burst are lost. Redis is told at once.
  void refund(std::uint64_t tokens);
  /// Takes tokens that were used and not asked for. A level below zero delays the next grant, in any process, by its
  /// time.
  ///
  /// refund and charge throw std::system_error, errc::invalid_argument, for more than 2^31 at a time.
  void charge(std::uint64_t tokens);

  /// Changes the limit for all processes and their waiters, at once. The tokens that are there stay, up to the new
  /// burst.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the value and the range. Nothing changes then.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// A lower bound on the wait of `r` if it came now, from the last answer of Redis and the waiters of this process.
  /// Later requests of other processes make the wait longer. 0 before the first call; max when the context has gone.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;
};

}  // namespace canigo::redis
