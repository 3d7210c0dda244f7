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
  std::uint64_t permits = 1;                    ///< max number of permits in use at once, 1 to 2^62
  int priorities = 1;                           ///< number of priority classes, 1 to 1024; class 0 goes first
  std::size_t queue_limit = 100'000;            ///< max number of waiters, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a new request; overflow::wait is invalid
  duration ageing = duration::max();  ///< waiting time after which a waiter rises by one class; more than 0; max: never
  shedding_options shedding = {};     ///< ends waiters during an overload; default: never
  /// shadow: the limit grants each request immediately; stats() counts how requests would end without shadow mode
  enforcement mode = enforcement::enforce;
  std::string name = {};  ///< appears in error messages
};

struct semaphore_stats : queue_stats {
  std::uint64_t held = 0;      ///< permits in use, including those that are granted but not yet delivered
  std::uint64_t capacity = 0;  ///< max number of permits; after it was lowered, `held` may exceed it for a while
  shadow_stats shadow;         ///< how requests that shadow mode granted would have ended without it
};

/// Limits the number of callers that run at the same time, with priorities: `permit p = co_await semaphore.acquire()`,
/// or `acquire({.priority = 1, .tokens = 3})`.
///
/// Promises:
/// - At most `permits` permits are in use at any instant. `request.tokens` is the weight: how many permits the request
///   takes in one step.
/// - Between classes priority is strict. Inside a class requests go in order of arrival: a light request never
///   overtakes a heavy one.
/// - A released permit goes, at the same instant, to the request that is then first in the queue.
/// - Every acquire() ends exactly once.
///
/// The base class limit_handle has the members for acquiring, pausing, listing and stopping. Its acquire() takes no
/// plain number, because that could mean a class or a weight.
///
/// Errors of all acquires; a failed acquire consumes nothing:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted, by `on_overflow`;
/// - errc::deadline_unreachable immediately if the deadline has passed, or is before the end of a pause_until();
///   errc::timed_out when the deadline passes during the wait;
/// - errc::too_large immediately if the weight exceeds all permits, or when resize() makes their number too small for
///   it;
/// - errc::invalid_priority and errc::invalid_argument immediately;
/// - errc::not_enough_memory if there is no memory for the waiter.
///
/// Cancellation: terminal, partial, total. The request leaves the queue and takes no permit. Waiters behind it are
/// granted at the same instant if enough permits are free.
/// Threads: any thread may call any member at any time. The semaphore's own executor keeps the time. So the loop of
/// that executor must run while a request with a deadline waits.
/// Lifetime: destroying this object ends every waiter with errc::stopped. Issued permits stay valid, with their full
/// weight. The execution context may be destroyed first.
class semaphore : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  semaphore(const net::any_io_executor& executor, const semaphore_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  semaphore(ExecutionContext& context, const semaphore_options& options)
      : semaphore{net::any_io_executor{context.get_executor()}, options} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  semaphore(const Context&, const detail::misfit_options&) : semaphore{net::any_io_executor{}, semaphore_options{}} {
    static_assert(!detail::any_context<Context>,
                  "semaphore: a field is another class's, or has another type: .permits is a whole number, .ageing a "
                  "span such as 2s");
  }
  /// Rejects a plain value instead of options at compile time. The compiler's message shows how to name the field.
  template <detail::any_context Context, detail::bare_value<semaphore_options> Value>
  semaphore(const Context&, const Value&) : semaphore{net::any_io_executor{}, semaphore_options{}} {
    static_assert(!detail::any_context<Context>, "semaphore: name the field: semaphore{io, {.permits = 4}}");
  }

  /// Changes the number of permits, 1 to 2^62. Issued permits stay valid: if more are in use than the new number, no
  /// request is granted until enough of them are released.
  void resize(std::uint64_t permits);

  /// Allocates memory for the returned statistics.
  semaphore_stats stats() const;
};

}  // namespace canigo
