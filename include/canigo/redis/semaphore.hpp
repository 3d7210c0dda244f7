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
  std::uint64_t permits = 1;                 ///< max number of permits in use, in all processes; 1 to 2^31
  duration lease = std::chrono::seconds{5};  ///< how long a crashed process keeps its permits; 10 ms to 1 day
  int priorities = 1;                        ///< number of priority classes, 1 to 256; class 0 goes first
  std::size_t queue_limit = 10'000;          ///< max number of waiters in this process; 1 or more
  overflow on_overflow =
      overflow::reject_new;  ///< how a full queue treats a new request; only waiters of this process are evicted
  duration give_up = std::chrono::seconds{10};  ///< waiters end if Redis has not answered for this time; max: never
  std::string space = "default";                ///< separates limits of the same name in one Redis
  /// How long a released permit may be kept in reserve for the next acquire in this process; 0 (no reserve) to the
  /// length of the lease.
  duration horizon{};
  /// Whether to grant nothing for the length of one lease after Redis has restarted or lost its data. If false, more
  /// permits than the maximum may be in use during this time.
  bool quarantine = true;
};

/// A semaphore with priorities that all processes share: `permit p = co_await slots.acquire({.priority = 1})`.
///
/// Requests, and the order of their grants, are as in canigo::semaphore. A class is served only while no request of a
/// more important class waits. Within a class, requests of all processes are granted in the order of their arrival at
/// Redis. A released permit goes to the request that is then first in the queue. Redis grants that request in the same
/// step, and notifies the process of the request. So no process polls.
///
/// An acquire without a wait takes one command, and so does a release. Calls that are made while a command is under way
/// share the next command.
///
/// All processes should have the same options. If they differ, the options of the process that called last are used.
/// resize() and pause_until() change the limit for all processes. A change overrides the options until Redis loses its
/// data and no running process knows the change. Both functions return immediately. The process reports the change as
/// soon as Redis answers. If Redis does not answer for `give_up`, the process drops the change.
///
/// With a `horizon`, a permit that is released while no request waits in any process is kept in reserve for the next
/// acquire in this process. Neither the release nor that acquire needs a round trip. The permit counts as held
/// meanwhile. It is given back after the horizon, or when Redis reports that a request of another process waits. A
/// permit from the reserve has the fencing token of the latest grant by Redis to this process.
///
/// The base class redis::limit_handle has the members for acquiring, pausing and stopping.
///
/// Errors of all acquires; the exception's text says why Redis does not answer:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted, by `on_overflow`;
/// - errc::deadline_unreachable immediately if the deadline has passed; errc::timed_out when it passes during the wait;
/// - errc::store_unavailable if Redis has not answered for `give_up`, or by the deadline (instead of errc::timed_out);
/// - errc::lease_lost if the lease ended before the caller was resumed;
/// - errc::too_large, errc::invalid_priority and errc::invalid_argument immediately;
/// - errc::not_enough_memory if there is no memory for the waiter;
/// - a code of redis::form_category() while processes with another version of the library use the limit;
/// - a redis::error immediately if waiting is useless, for example after a wrong password.
///
/// While Redis does not answer, no request is granted, and permits in use are lost when their lease ends.
/// Cancellation: terminal, partial, total. The request leaves the queue, and leaves nothing in Redis.
/// Threads: any thread may call any member at any time.
/// Lifetime: destroying this object ends every waiter with errc::stopped. Issued permits stay valid as long as the
/// client lives. The execution context may be destroyed first.
class semaphore : public limit_handle<detail::place_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  semaphore(client& c, std::string_view name, const semaphore_options& options);

  /// Changes the number of permits for all processes, 1 to 2^31. Issued permits stay valid: if more are in use than the
  /// new number, no request is granted until enough of them are released.
  ///
  /// Throws std::system_error (errc::invalid_argument) for a number outside this range. The error text names the number
  /// and the range.
  void resize(std::uint64_t permits);
};

}  // namespace canigo::redis
