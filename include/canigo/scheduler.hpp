#pragma once

#include "canigo/limit_handle.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

namespace canigo {

struct scheduler_options {
  canigo::rate rate;                  ///< tokens released per period
  std::uint64_t burst = 1;            ///< most tokens kept while no request comes, and most for one; 1 to 2^62
  std::uint64_t initial_tokens = 0;   ///< 0 to burst; empty means that the first grant is one period/tokens away
  int priorities = 1;                 ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;  ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a newcomer; any but overflow::wait
  duration ageing = duration::max();          ///< a waiter rises one class per `ageing` waited; more than 0; max: never
  shedding_options shedding = {};             ///< which waiters end in an overload; default: none
  duration slack = duration::zero();          ///< a wake-up may wait so long to meet others; 0s to 1s
  enforcement mode = enforcement::enforce;    ///< shadow: requests go at once, and stats() counts what would have been
  std::string name = {};                      ///< for the texts of errors
  rate_window window = rate_window::average;  ///< strict: see rate_window; the burst is at most the tokens of the rate
};

struct scheduler_stats : queue_stats {
  std::int64_t tokens = 0;  ///< available now; below 0: a debt
  shadow_stats shadow;      ///< the counts of shadow mode
};

/// Lets callers through at a rate, the important ones first: `co_await scheduler.acquire(priority)`.
///
/// Promises:
/// - Any closed window of length t holds at most burst + floor(t · rate) granted tokens. If a token is no whole number
///   of nanoseconds, the bound is burst + floor((t + 1 ns) · rate): see token_bucket.
/// - With rate_window::strict, no closed window of the rate's period holds more granted tokens than the rate names:
///   see rate_limit. Tokens that refund() gives back count in the window all the same.
/// - While requests wait, a window holds at least floor(t · rate) tokens. The schedule is absolute, so it does not
///   drift.
/// - Between classes priority is strict. Inside a class the order is that of arrival, and a lighter request never
///   overtakes a heavy one.
/// - A token is bound to a waiter at the instant at which it is released. So a more important request that arrives
///   later goes first.
/// - Every acquire ends exactly once.
///
/// In real time a wake-up may be late. That does not shift the schedule. Up to 20 ms of lateness is made up for at
/// once, so a window in real time may hold the tokens of 20 ms more. The tokens of a longer delay are lost, except for
/// the burst.
///
/// Errors of all acquires; a failed one consumes nothing:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted, by `on_overflow`;
/// - errc::deadline_unreachable at once if even estimate() lies past the deadline, errc::timed_out when the deadline
///   passes;
/// - errc::too_large at once, or when set_burst() leaves less than the request asks for;
/// - errc::invalid_priority and errc::invalid_argument at once;
/// - errc::not_enough_memory if there is no memory to wait with.
///
/// Cancellation: terminal, partial, total. The request loses its place in the queue and takes no token. Waiters that
/// it held up go in the same instant.
/// Threads: any, all members, at once. Its own executor keeps the time. So the loop of that executor must run while a
/// request waits, whichever loop the request waits on.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
///
/// The members for asking, pausing, listing and stopping are those of every limit: limit_handle.
///
/// Source of the arithmetic: generic cell rate algorithm, ITU-T I.371.
class scheduler : public limit_handle<detail::plain_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  scheduler(const net::any_io_executor& executor, const scheduler_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  scheduler(ExecutionContext& context, const scheduler_options& options)
      : scheduler{net::any_io_executor{context.get_executor()}, options} {}
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context>
  scheduler(const Context&, const detail::misfit_options&)
      : scheduler{net::any_io_executor{}, {.rate = {1, duration{1}}}} {
    static_assert(!detail::any_context<Context>,
                  "scheduler: a field is another class's, or has another type: .rate is a rate, .burst a whole number, "
                  ".ageing a span such as 2s");
  }
  /// Does not compile: the compiler's message says what to write.
  template <detail::any_context Context, detail::bare_value<scheduler_options> Value>
  scheduler(const Context&, const Value&) : scheduler{net::any_io_executor{}, {.rate = {1, duration{1}}}} {
    static_assert(!detail::any_context<Context>,
                  "scheduler: name the field: scheduler{io, {.rate = rate::per_second(5)}}");
  }

  /// Asks by class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] bool try_acquire(int priority) { return try_acquire(request{.priority = priority}); }

  /// Gives back tokens that were granted and not used. Tokens beyond the burst are lost.
  void refund(std::uint64_t tokens);
  /// Takes tokens that were used and not asked for. A level below zero delays the next grant by its time.
  void charge(std::uint64_t tokens);

  /// Changes the limit for all waiters, at once. The tokens that are there stay, up to the new burst.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// A lower bound on the wait of `r` if it came now. It assumes that all waiters ahead of `r` stay, and that no more
  /// important request comes.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;

  /// Allocates.
  scheduler_stats stats() const;
};

}  // namespace canigo
