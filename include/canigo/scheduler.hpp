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
  canigo::rate rate;        ///< tokens released per period
  std::uint64_t burst = 1;  ///< max number of stored tokens, and of tokens for one request; 1 to 2^62
  /// tokens at the start; 0 to burst; with 0, the first token is released after period/tokens
  std::uint64_t initial_tokens = 0;
  int priorities = 1;                           ///< number of priority classes, 1 to 1024; class 0 goes first
  std::size_t queue_limit = 100'000;            ///< max number of waiters, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a new request; overflow::wait is invalid
  duration ageing = duration::max();  ///< waiting time after which a waiter rises by one class; more than 0; max: never
  shedding_options shedding = {};     ///< ends waiters during an overload; default: never
  duration slack = duration::zero();  ///< how late a wake-up may be, so that one wake-up can replace several; 0s to 1s
  /// shadow: the limit grants each request immediately; stats() counts how requests would end without shadow mode
  enforcement mode = enforcement::enforce;
  std::string name = {};                      ///< appears in error messages
  rate_window window = rate_window::average;  ///< how strict windows are; `strict` requires burst <= tokens of the rate
};

struct scheduler_stats : queue_stats {
  std::int64_t tokens = 0;  ///< available tokens; below 0: a debt
  shadow_stats shadow;      ///< how requests that shadow mode granted would have ended without it
};

/// A rate limit with priorities: `co_await scheduler.acquire(priority)` waits until the rate allows the caller to
/// continue.
///
/// Promises:
/// - Any window of length t, both ends included, holds at most burst + floor(t · rate) granted tokens. If a token is no
///   whole number of nanoseconds, the bound is burst + floor((t + 1 ns) · rate): see token_bucket.
/// - With rate_window::strict, no window of one period, both ends included, holds more granted tokens than the rate
///   allows: see rate_window. Refunded tokens still count in the window.
/// - While requests wait, a window holds at least floor(t · rate) tokens. The schedule is absolute, so it does not
///   drift.
/// - Between classes priority is strict. Inside a class requests go in order of arrival: a light request never
///   overtakes a heavy one.
/// - A token is assigned to a waiter only at the instant at which it is released. So a more important request that
///   arrives before that instant goes first.
/// - Every acquire() ends exactly once.
///
/// In real time a wake-up may be late. A late wake-up does not shift the schedule. If the delay is at most 20 ms, the
/// tokens released during the delay are granted immediately. So a window in real time may hold the tokens of 20 ms more
/// than promised above. Tokens of a longer delay are lost, except for the burst.
///
/// Errors of all acquires; a failed acquire consumes nothing:
/// - errc::stopped after stop();
/// - errc::queue_full or errc::evicted if the queue is full; `on_overflow` decides which request ends;
/// - errc::deadline_unreachable immediately if even the wait that estimate() returns would end after the deadline;
/// - errc::timed_out when the deadline passes during the wait;
/// - errc::too_large immediately if the request exceeds the burst, or when set_burst() makes the burst too small for
///   it;
/// - errc::invalid_priority immediately if the request's class does not exist;
/// - errc::invalid_argument immediately for another invalid field of the request, such as 0 tokens;
/// - errc::not_enough_memory if there is no memory for the waiter.
///
/// Cancellation: terminal, partial, total. The request leaves the queue and takes no token. Waiters behind it are
/// granted at the same instant if the rate allows it.
/// Threads: any thread may call any member at any time. The scheduler's own executor keeps the time. So the loop of
/// that executor must run while a request waits, even if the waiting coroutine runs on another loop.
/// Lifetime: destroying this object ends every waiter with errc::stopped. The execution context may be destroyed first.
///
/// The base class limit_handle has the members for acquiring, pausing, listing and stopping.
///
/// Source of the arithmetic: generic cell rate algorithm, ITU-T I.371.
class scheduler : public limit_handle<detail::plain_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  scheduler(const net::any_io_executor& executor, const scheduler_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  scheduler(ExecutionContext& context, const scheduler_options& options)
      : scheduler{net::any_io_executor{context.get_executor()}, options} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  scheduler(const Context&, const detail::misfit_options&)
      : scheduler{net::any_io_executor{}, {.rate = {1, duration{1}}}} {
    static_assert(!detail::any_context<Context>,
                  "scheduler: a field is another class's, or has another type: .rate is a rate, .burst a whole number, "
                  ".ageing a span such as 2s");
  }
  /// Rejects a plain value instead of options at compile time. The compiler's message shows how to name the field.
  template <detail::any_context Context, detail::bare_value<scheduler_options> Value>
  scheduler(const Context&, const Value&) : scheduler{net::any_io_executor{}, {.rate = {1, duration{1}}}} {
    static_assert(!detail::any_context<Context>,
                  "scheduler: name the field: scheduler{io, {.rate = rate::per_second(5)}}");
  }

  /// Overloads for requests of one token that have only a priority class. The base class limit_handle has the other
  /// overloads, and also async_acquire(), pause(), resume() and stop().
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<void> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] bool try_acquire(int priority) { return try_acquire(request{.priority = priority}); }

  /// Gives back granted tokens that were not used. Tokens beyond the burst are lost.
  void refund(std::uint64_t tokens);
  /// Takes tokens that were used without a request. If the level falls below zero, the next grant waits until the level
  /// is zero again.
  void charge(std::uint64_t tokens);

  /// set_rate() and set_burst() change the limit for all waiters immediately. Available tokens are kept, up to the new
  /// burst.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// A lower bound on the time that `r` would wait if it arrived now. It assumes that all waiters ahead of `r` stay,
  /// and that no more important request arrives.
  ///
  /// Throws std::system_error for a request that can never be granted.
  duration estimate(request r) const;

  /// Allocates memory for the returned statistics.
  scheduler_stats stats() const;
};

}  // namespace canigo
