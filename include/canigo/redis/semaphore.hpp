#pragma once

#include "canigo/redis/client.hpp"
#include "canigo/redis/limit_handle.hpp"
#include "canigo/redis/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace canigo::redis {

struct semaphore_options {
  std::uint64_t permits = 1;                 ///< most that are out at once, in all processes; 1 to 2^31
  duration lease = std::chrono::seconds{5};  ///< how long a crashed holder keeps its permits; 10 ms to 1 day
  int priorities = 1;                        ///< classes 0 (first) … priorities-1; 1 to 256
  std::size_t queue_limit = 10'000;          ///< most waiters of this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a newcomer; only this process's waiters are evicted
  duration give_up = std::chrono::seconds{10};  ///< waiters end after so long without an answer; max: never
  std::string space = "default";                ///< separates limits of the same name in one Redis
  /// How long a permit that is given back may be kept for the next acquire in this process; up to the lease. 0: not at
  /// all.
  duration horizon{};
  bool quarantine = true;  ///< grant nothing for one lease after Redis has restarted or lost its data; off: unsafe
};

/// Lets a limited number in at once, in all processes together: `permit p = co_await slots.acquire({.priority = 1})`.
///
/// Requests and order are those of canigo::semaphore. Between classes priority is strict. Inside a class the order is
/// that of arrival at Redis, from whichever process. A permit that is given back goes to the request that is first
/// then. The server does that in one step and tells the process of that request; no process polls.
///
/// An acquire without a wait is one command, and so is a release. Calls that are made while a command is under way
/// share the next one.
///
/// All processes should have the same options. If they differ, those of the process that called last count. resize()
/// and pause_until() change the limit for all processes. The change overrules the options until Redis loses its data
/// and no process is left that knows it. The calls return at once. The process tells Redis as soon as Redis answers, or
/// drops the change after `give_up`.
///
/// With a `horizon`, a permit that is given back while no request waits in any process is kept for the next acquire in
/// this process. Neither the release nor that acquire needs a round trip. The permit counts as held meanwhile. It goes
/// back when the time is over, or when a request of another process waits, which Redis tells at once. Permits that this
/// process handed out itself share the fencing token of the latest grant by Redis to it.
///
/// The members for asking, pausing and stopping are those of every limit in Redis: redis::limit_handle.
///
/// Errors of all acquires; the exception's text says why Redis does not answer:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted, by `on_overflow`;
/// - errc::deadline_unreachable at once if the deadline has passed, errc::timed_out when it passes;
/// - errc::store_unavailable instead if Redis has not answered by the deadline, or for `give_up`;
/// - errc::lease_lost if the lease ended before the caller could run;
/// - errc::too_large, errc::invalid_priority and errc::invalid_argument at once;
/// - errc::not_enough_memory if there is no memory to wait with;
/// - a code of redis::form_category() while processes of another version of the library have the limit;
/// - a redis::error at once if a wait is of no use, as with a wrong password.
///
/// It fails closed: while Redis is away no request is granted, and the permits that are out are lost when their lease
/// ends.
/// Cancellation: terminal, partial, total. The request loses its place in the queue, and leaves nothing in Redis.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. Permits that are out stay good as long as the client
/// lives. The execution context may be destroyed first.
class semaphore : public limit_handle<detail::place_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  semaphore(client& c, std::string_view name, const semaphore_options& options);

  /// Changes the number of permits for all processes, 1 to 2^31. Revokes none: after a smaller number, no request is
  /// granted until enough permits have been given back.
  ///
  /// Throws std::system_error, errc::invalid_argument, naming the value and the range.
  void resize(std::uint64_t permits);
};

}  // namespace canigo::redis
