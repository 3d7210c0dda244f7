#pragma once

#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>

namespace canigo {

struct semaphore_options {
  std::uint64_t permits = 1;          ///< most that are out at once, 1 to 2^62
  int priorities = 1;                 ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;  ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;
  duration ageing = duration::max();  ///< a waiter rises one class per `ageing` waited; max: never
};

struct semaphore_stats : queue_stats {
  std::uint64_t held = 0;      ///< out now, or on their way to who was granted them
  std::uint64_t capacity = 0;  ///< less than `held` for a while after resize() to less
};

/// Lets so many in at once, the important ones first: `permit p = co_await semaphore.acquire()`, or
/// `acquire({.priority = 1, .tokens = 3})`.
///
/// `request.tokens` is the weight, the number of permits wanted as one. At no instant are more permits out than there
/// are. Between classes priority is strict, inside a class the order is that of arrival, and a heavy request is not
/// overtaken by a lighter one of its class. A permit that is dropped goes to who is first then, in the same instant.
///
/// Asking, pausing and stopping are those of every limit: limit_handle. A bare number is not taken: it might
/// be a class or a weight.
///
/// Errors, of all acquires: errc::stopped after stop(); errc::queue_full or errc::evicted by `on_overflow`;
/// errc::timed_out when the deadline passes, errc::deadline_unreachable at once if it has passed, or if a pause lasts
/// longer; errc::too_large at once if it weighs more than there are permits, or when resize() leaves fewer;
/// errc::invalid_priority, errc::invalid_argument at once. Nothing is consumed by one that fails.
/// Cancellation: terminal, partial, total. The place in the queue is lost; no permit is taken, and who waited behind
/// goes in the same instant if it can.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped; permits that are out stay good, and whole. The
/// execution context may be destroyed first.
class semaphore : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  semaphore(const net::any_io_executor& executor, const semaphore_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  semaphore(ExecutionContext& context, const semaphore_options& options)
      : semaphore{net::any_io_executor{context.get_executor()}, options} {}

  /// Changes how many there are, 1 to 2^62. Revokes none: after less, nobody is let in until enough have been dropped.
  void resize(std::uint64_t permits);

  /// Allocates.
  semaphore_stats stats() const;
};

}  // namespace canigo
