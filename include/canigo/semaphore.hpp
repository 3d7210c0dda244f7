#pragma once

#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/detail/context/misuse.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace canigo {

struct semaphore_options {
  std::uint64_t permits = 1;                    ///< most that are out at once, 1 to 2^62
  int priorities = 1;                           ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;            ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a newcomer; any but overflow::wait
  duration ageing = duration::max();        ///< a waiter rises one class per `ageing` waited; more than 0; max: never
  shedding_options shedding = {};           ///< which waiters end in an overload; default: none
  enforcement mode = enforcement::enforce;  ///< shadow: requests go at once, and stats() counts what would have been
  std::string name = {};                    ///< for the texts of errors
};

struct semaphore_stats : queue_stats {
  std::uint64_t held = 0;      ///< permits that are out, or granted and on their way
  std::uint64_t capacity = 0;  ///< all permits; less than `held` for a while after a resize() to less
  shadow_stats shadow;         ///< the counts of shadow mode
};

/// Lets a limited number in at once, the important ones first: `permit p = co_await semaphore.acquire()`, or
/// `acquire({.priority = 1, .tokens = 3})`.
///
/// Promises:
/// - At no instant are more than `permits` permits out. `request.tokens` is the weight: the number of permits wanted as
///   one.
/// - Between classes priority is strict. Inside a class the order is that of arrival, and a lighter request never
///   overtakes a heavy one.
/// - A permit that is dropped goes, in the same instant, to the request that is first then.
/// - Every acquire ends exactly once.
///
/// The members for asking, pausing, listing and stopping are those of every limit: limit_handle. They take no bare
/// number, which could mean a class or a weight.
///
/// Errors of all acquires; a failed one consumes nothing:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted, by `on_overflow`;
/// - errc::deadline_unreachable at once if the deadline has passed, or lies before the end of a pause_until();
///   errc::timed_out when it passes;
/// - errc::too_large at once if the weight exceeds all permits, or when resize() leaves fewer;
/// - errc::invalid_priority and errc::invalid_argument at once;
/// - errc::not_enough_memory if there is no memory to wait with.
///
/// Cancellation: terminal, partial, total. The request loses its place in the queue and takes no permit. Waiters that
/// it held up go in the same instant if they can.
/// Threads: any, all members, at once. Its own executor keeps the time. So the loop of that executor must run while a
/// request with a deadline waits.
/// Lifetime: destroying it ends every waiter with errc::stopped. Permits that are out stay good, with their full
/// weight. The execution context may be destroyed first.
class semaphore : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  semaphore(const net::any_io_executor& executor, const semaphore_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  semaphore(ExecutionContext& context, const semaphore_options& options)
      : semaphore{net::any_io_executor{context.get_executor()}, options} {}
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context>
  semaphore(const Context&, const detail::misfit_options&) : semaphore{net::any_io_executor{}, semaphore_options{}} {
    static_assert(!detail::any_context<Context>,
                  "semaphore: a field is another class's, or has another type: .permits is a whole number, .ageing a "
                  "span such as 2s");
  }
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context, detail::bare_value<semaphore_options> Value>
  semaphore(const Context&, const Value&) : semaphore{net::any_io_executor{}, semaphore_options{}} {
    static_assert(!detail::any_context<Context>, "semaphore: name the field: semaphore{io, {.permits = 4}}");
  }

  /// Changes the number of permits, 1 to 2^62. Revokes none: after a smaller number, no request is granted until enough
  /// permits have been dropped.
  void resize(std::uint64_t permits);

  /// Allocates.
  semaphore_stats stats() const;
};

}  // namespace canigo
