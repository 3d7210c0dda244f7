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
  duration give_up = std::chrono::seconds{10};  ///< waiters end after so long without an answer; max: never
  std::string space = "default";                ///< keeps apart what shares a Redis
  /// What is given back may be kept for the next acquire here so long; up to the lease. 0: not at all.
  duration horizon{};
  bool quarantine = true;  ///< let nobody in for one lease after Redis has restarted or lost its data; off: unsafe
};

/// Lets so many in at once, in all processes together: `permit p = co_await slots.acquire(priority)`.
///
/// Requests, order and errors are those of canigo::semaphore. Between classes priority is strict and inside a class the
/// order is that of arrival at Redis, whichever process asks. A permit that is given back goes to who is first then, in
/// one step in the server, which tells its process; nobody polls. An uncontended acquire is one command, and so is a
/// release; what happens while a command is under way goes in the next one together.
///
/// All processes should have the same options; where they differ, the one that spoke last counts. What resize() and
/// pause_until() change is changed for all, in place of the options, until Redis loses its data and no process is left
/// that knows it. They return at once; Redis is told as soon as it answers, for `give_up` long.
///
/// With a `horizon` a permit that is given back while nobody waits anywhere is kept for the next acquire in this
/// process, and neither needs a round trip. It counts as held meanwhile, and goes back when the time is over or
/// somebody waits elsewhere, which Redis tells at once. Permits that were handed out by this process itself share the
/// fencing token of the latest grant by Redis to it.
///
/// Errors, of all acquires: errc::stopped after stop(); errc::queue_full; errc::timed_out when the deadline passes,
/// errc::deadline_unreachable at once if it has passed; errc::store_unavailable instead if Redis has not answered by
/// then, or for `give_up`; errc::lease_lost if the lease ended before the caller could run; errc::too_large,
/// errc::invalid_priority, errc::invalid_argument at once; one of redis::form_category() while processes of another
/// version of the library have it; a redis::error at once where waiting is of no use, as with a wrong password. The
/// text of what is thrown says why Redis does not answer. It fails closed: without Redis nobody is let in, and the
/// permits that are out are lost when their lease ends.
/// Cancellation: terminal, partial, total. The place in the queue is lost, and nothing is left in Redis.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped; permits that are out stay good as long as the client
/// lives. The execution context may be destroyed first.
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

  /// Takes them if they can be had at once: one round trip at most, and no place in the queue.
  ///
  /// Empty if they are not there or somebody waits. Errors: those of acquire; errc::store_unavailable where Redis does
  /// not answer for 0.5 s, or on a slow line for three round trips.
  [[nodiscard]] net::awaitable<std::optional<permit>> acquire_now(request r = {});

  /// Takes them out of what is kept here, if nobody here waits; never waits, and never asks Redis. Without a `horizon`
  /// there is nothing to take.
  ///
  /// Throws std::system_error for a priority or a weight that can't be; empty once stopped.
  [[nodiscard]] std::optional<permit> try_acquire(request r = {});

  /// Changes how many there are, for all processes, 1 to 2^31. Revokes none: after less, nobody is let in until enough
  /// have been given back.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the value and the range.
  void resize(std::uint64_t permits);

  /// Lets nobody in, in any process, until `t`, or until resume(). The last call, by any process, counts.
  void pause_until(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// Allocates.
  limit_stats stats() const;

  /// Ends every waiter with errc::stopped, and every later acquire. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  std::shared_ptr<detail::ledger> ledger_;
};

}  // namespace canigo::redis
