#pragma once

#include "canigo/net.hpp"
#include "canigo/redis/client.hpp"
#include "canigo/redis/detail/limit_waiter.hpp"
#include "canigo/redis/limit_stats.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace canigo::redis {

struct semaphore_options {
  std::uint64_t permits = 1;                    ///< most that are out at once, in all processes; 1 to 2^31
  duration lease = std::chrono::seconds{5};     ///< how long a crashed holder keeps its permits; 10 ms to 1 day
  int priorities = 1;                           ///< classes 0 (first) … priorities-1; 1 to 256
  std::size_t queue_limit = 10'000;             ///< most waiters of this process; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< any but overflow::wait; only this process's waiters are evicted
  duration give_up = std::chrono::seconds{10};  ///< waiters end after so long without an answer; max: never
  std::string space = "default";                ///< separates limits of the same name in one Redis
  /// How long a permit that is given back may be kept for the next acquire in this process; up to the lease. 0: not at
  /// all.
  duration horizon{};
  bool quarantine = true;  ///< let nobody in for one lease after Redis has restarted or lost its data; off: unsafe
};

/// Lets a limited number in at once, in all processes together: `permit p = co_await slots.acquire({.priority = 1})`.
///
/// Requests and order are those of canigo::semaphore. Between classes priority is strict. Inside a class the order is
/// that of arrival at Redis, from whichever process. A permit that is given back goes to the request that is first
/// then. The server does that in one step and tells the process of that request; nobody polls.
///
/// An acquire without a wait is one command, and so is a release. Calls that are made while a command is under way
/// share the next one.
///
/// All processes should have the same options. If they differ, those of the process that called last count. resize()
/// and pause_until() change the limit for all processes. The change overrules the options until Redis loses its data
/// and no process is left that knows it. The calls return at once. The process tells Redis as soon as Redis answers, or
/// drops the change after `give_up`.
///
/// With a `horizon`, a permit that is given back while nobody waits anywhere is kept for the next acquire in this
/// process. Neither needs a round trip. The permit counts as held meanwhile. It goes back when the time is over, or
/// when somebody waits elsewhere, which Redis tells at once. Permits that this process handed out itself share the
/// fencing token of the latest grant by Redis to it.
///
/// Errors of all acquires; the exception's text says why Redis does not answer:
/// - errc::stopped after stop();
/// - errc::queue_full;
/// - errc::deadline_unreachable at once if the deadline has passed, errc::timed_out when it passes;
/// - errc::store_unavailable instead if Redis has not answered by then, or for `give_up`;
/// - errc::lease_lost if the lease ended before the caller could run;
/// - errc::too_large, errc::invalid_priority and errc::invalid_argument at once;
/// - errc::not_enough_memory if there is no memory to wait with;
/// - a code of redis::form_category() while processes of another version of the library have the limit;
/// - a redis::error at once if a wait is of no use, as with a wrong password.
///
/// It fails closed: while Redis is away nobody is let in, and the permits that are out are lost when their lease ends.
/// Cancellation: terminal, partial, total. The request loses its place in the queue, and leaves nothing in Redis.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. Permits that are out stay good as long as the client
/// lives. The execution context may be destroyed first.
/// An awaitable or deferred operation that has not been started keeps what it needs: it may be started after this
/// object is destroyed.
class semaphore {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  semaphore(client& c, std::string_view name, const semaphore_options& options);
  ~semaphore();
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  /// Waits until the permits are there and takes them. Throws std::system_error.
  [[nodiscard]] net::awaitable<permit> acquire(request r = {});

  /// The same for any completion token; signature void(std::error_code, redis::permit).
  template <net::completion_token_for<void(std::error_code, permit)> Token>
  auto async_acquire(request r, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, permit)>(
        detail::start_limit_wait<detail::place_waiter>{ledger_}, token, r);
  }

  /// Takes the permits if they are available at once: with one round trip at most, and no place in the queue.
  ///
  /// Returns an empty optional if they are not there or somebody waits. Errors: those of acquire;
  /// errc::store_unavailable if Redis does not answer for 0.5 s, or for three round trips of a slow line.
  [[nodiscard]] net::awaitable<std::optional<permit>> acquire_now(request r = {});

  /// Takes permits that are kept here, if nobody here waits. Never waits, and never asks Redis. Works with a `horizon`
  /// only.
  ///
  /// Otherwise, and once stopped, returns an empty optional. Throws std::system_error for an invalid priority or
  /// weight.
  [[nodiscard]] std::optional<permit> try_acquire(request r = {});

  /// Changes the number of permits for all processes, 1 to 2^31. Revokes none: after a smaller number, nobody gets in
  /// until enough permits have been given back.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the value and the range.
  void resize(std::uint64_t permits);

  /// Lets nobody in, in any process, until `t`, or until resume(). Of several calls, by any process, the last one
  /// counts.
  void pause_until(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// Allocates.
  limit_stats stats() const;

  /// Ends every waiter and every later acquire with errc::stopped. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  std::shared_ptr<detail::ledger> ledger_;
};

}  // namespace canigo::redis
