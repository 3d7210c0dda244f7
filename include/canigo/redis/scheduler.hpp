#pragma once

#include "canigo/net.hpp"
#include "canigo/rate.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/detail/limit_waiter.hpp"
#include "canigo/redis/limit_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

namespace canigo::redis {

/// What a quota does while Redis does not answer.
class failure_mode {
 public:
  enum class kind { closed, open, local };

  /// Nobody is let through.
  static constexpr failure_mode closed() noexcept { return {kind::closed, 0}; }
  /// Everybody is.
  static constexpr failure_mode open() noexcept { return {kind::open, 1}; }
  /// This process goes on with its share of the rate and of the burst, by itself; more than 0, up to 1.
  static constexpr failure_mode local(double share) noexcept { return {kind::local, share}; }

  constexpr kind what() const noexcept { return what_; }
  constexpr double share() const noexcept { return share_; }

 private:
  constexpr failure_mode(kind k, double share) noexcept : what_{k}, share_{share} {}
  kind what_;
  double share_;
};

struct scheduler_options {
  canigo::rate rate;                 ///< tokens released per period, to all processes together
  std::uint64_t burst = 1;           ///< most tokens kept while nobody asks, and most for one request; 1 to 2^31
  int priorities = 1;                ///< classes 0 (first) … priorities-1; 1 to 256
  std::size_t queue_limit = 10'000;  ///< most waiters of this process; 1 or more
  failure_mode on_failure = failure_mode::closed();
  duration give_up = std::chrono::seconds{10};  ///< waiters end after so long without an answer; max: never
  std::string space = "default";                ///< keeps apart what shares a Redis
  duration horizon{};  ///< tokens may be taken ahead, and used here without asking Redis, for so long; up to 1 min
};

/// Lets callers through at a rate that all processes share: `co_await quota.acquire(priority)`.
///
/// Requests, order and promises are those of canigo::scheduler, with the arithmetic in whole microseconds of Redis'
/// clock and the queue in Redis. The bucket starts empty, and again after Redis has lost its data, so a window never
/// holds more for that. A clock of Redis that is set forward releases at most one burst; those of clients do not count.
///
/// All processes should have the same options; where they differ, the one that spoke last counts. What set_rate(),
/// set_burst() and pause_until() change is changed for all, in place of the options, until Redis loses its data and no
/// process is left that knows it. They return at once; Redis is told as soon as it answers, for `give_up` long.
///
/// With a `horizon` a call takes more tokens than are asked for, if nobody waits and they are there, and the next
/// acquires here need no round trip. As many as were used up within the horizon are taken ahead, up to what comes in
/// within it and to the burst; what is not used goes back, at once if somebody waits elsewhere. The price: a window of
/// length t holds up to burst + rate · (t + horizon) tokens, a token that was taken ahead goes to whoever is first in
/// this process, and a pause by another process is heard of with the next call.
///
/// Errors: as redis::semaphore, without lease_lost; errc::store_unavailable, redis::error and those of
/// redis::form_category() only where `on_failure` is closed.
/// Cancellation: terminal, partial, total. The place in the queue is lost; a token that was on its way goes back.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
class scheduler {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  scheduler(client& c, std::string_view name, const scheduler_options& options);
  ~scheduler();
  scheduler(const scheduler&) = delete;
  scheduler& operator=(const scheduler&) = delete;

  /// Waits until the tokens are there and takes them. Throws std::system_error.
  [[nodiscard]] net::awaitable<void> acquire(request r);
  [[nodiscard]] net::awaitable<void> acquire(int priority = 0) { return acquire(request{.priority = priority}); }

  /// The same for any completion token; signature void(std::error_code).
  template <net::completion_token_for<void(std::error_code)> Token>
  auto async_acquire(request r, Token&& token) {
    return net::async_initiate<Token, void(std::error_code)>(detail::start_limit_wait<detail::quota_waiter>{ledger_},
                                                             token, r);
  }

  /// Takes them if they can be had at once: one round trip at most, and no place in the queue.
  ///
  /// False if they are not there or somebody waits. Where Redis does not answer it is decided after 0.2 s, or on a slow
  /// line three round trips, by `on_failure`: where that is closed it ends with errc::store_unavailable, after 0.5 s.
  /// Other errors: those of acquire.
  [[nodiscard]] net::awaitable<bool> acquire_now(request r);
  [[nodiscard]] net::awaitable<bool> acquire_now(int priority = 0) {
    return acquire_now(request{.priority = priority});
  }

  /// Takes them out of what was taken ahead, if nobody here waits; never waits, and never asks Redis. Without a
  /// `horizon` there is nothing to take.
  ///
  /// Throws std::system_error for a priority or a number of tokens that can't be; false once stopped.
  [[nodiscard]] bool try_acquire(request r);
  [[nodiscard]] bool try_acquire(int priority = 0) { return try_acquire(request{.priority = priority}); }

  /// Gives back tokens that were granted and not used; beyond the burst they are lost. Told to Redis at once.
  void refund(std::uint64_t tokens);
  /// Takes tokens that were used and not asked for; below zero, the next grant to anybody is so much later.
  ///
  /// Throws std::system_error, errc::invalid_argument, for more than 2^31 at a time, as refund does.
  void charge(std::uint64_t tokens);

  /// Changes the limit for all processes, and everybody who waits in them. The level stays, up to the new burst.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the value and the range; nothing has changed then.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// Grants nothing to anybody, in any process, until `t`, or until resume(): one process's 429 is everybody's. Tokens
  /// gather meanwhile, up to the burst. The last call, by any process, counts.
  void pause_until(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// A lower bound on the wait of `r` if it came now, out of what Redis said last and who waits here; what other
  /// processes do since then makes it longer. 0 before the first call; max when the context has gone.
  duration estimate(request r) const;

  /// Allocates.
  limit_stats stats() const;

  /// Ends every waiter with errc::stopped, and every later acquire. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  std::shared_ptr<detail::ledger> ledger_;
};

}  // namespace canigo::redis
