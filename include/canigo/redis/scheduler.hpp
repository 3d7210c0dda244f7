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
};

/// Lets callers through at a rate that all processes share: `co_await quota.acquire(priority)`.
///
/// Requests, order and promises are those of canigo::scheduler, with the arithmetic in whole microseconds of Redis'
/// clock and the queue in Redis. The bucket starts empty, and again after Redis has lost its data, so a window never
/// holds more for that. A clock of Redis that is set forward releases at most one burst; those of clients do not count.
///
/// All processes should have the same options; where they differ, the one that spoke last counts.
///
/// Errors: as redis::semaphore, without lease_lost; errc::store_unavailable only where `on_failure` is closed.
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
  net::awaitable<void> acquire(request r);
  net::awaitable<void> acquire(int priority = 0) { return acquire(request{.priority = priority}); }

  /// The same for any completion token; signature void(std::error_code).
  template <net::completion_token_for<void(std::error_code)> Token>
  auto async_acquire(request r, Token&& token) {
    return net::async_initiate<Token, void(std::error_code)>(detail::start_limit_wait<detail::quota_waiter>{ledger_},
                                                             token, r);
  }

  /// Allocates.
  limit_stats stats() const;

  /// Ends every waiter with errc::stopped, and every later acquire. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  std::shared_ptr<detail::ledger> ledger_;
};

}  // namespace canigo::redis
