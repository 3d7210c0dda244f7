#pragma once

#include "canigo/limit_handle.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>

namespace canigo {

struct scheduler_options {
  canigo::rate rate;                  ///< tokens released per period
  std::uint64_t burst = 1;            ///< most tokens kept while nobody asks, and most for one request; 1 to 2^62
  std::uint64_t initial_tokens = 0;   ///< 0 to burst; empty means that the first grant is one period/tokens away
  int priorities = 1;                 ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;  ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;
  duration ageing = duration::max();  ///< a waiter rises one class per `ageing` waited; max: never
};

struct scheduler_stats : queue_stats {
  std::int64_t tokens = 0;  ///< to be had now; below 0: charged beyond what was there
};

/// Lets callers through at a rate, the important ones first: `co_await scheduler.acquire(priority)`.
///
/// Any closed window of length t holds at most burst + floor(t · rate) tokens granted (where a token is no whole number
/// of nanoseconds, burst + floor((t + 1 ns) · rate): see token_bucket); saturated, it holds at least
/// floor(t · rate). The schedule is absolute, so it does not drift. Between classes priority is strict, inside a class
/// the order is that of arrival, and a heavy request is not overtaken by a lighter one of its class. A token is bound
/// to a waiter at the instant it is released: who arrives later but matters more goes first. Every acquire ends
/// exactly once.
///
/// In real time a wake-up is late by what the machine needs. The schedule does not slip by it: up to 20 ms of lateness
/// is made up for at once, so a window in real time may hold the tokens of that much more. What is later is lost,
/// beyond the burst.
///
/// Errors, of all acquires: errc::stopped after stop(); errc::queue_full or errc::evicted by `on_overflow`;
/// errc::deadline_unreachable at once if even estimate() lies past the deadline, errc::timed_out when it passes;
/// errc::invalid_priority, errc::invalid_argument, errc::too_large at once. Nothing is consumed by one that fails.
/// Cancellation: terminal, partial, total. The place in the queue is lost; no token is taken, and who waited behind
/// goes in the same instant.
/// Threads: any, all members, at once.
/// Lifetime: destroying it ends every waiter with errc::stopped. The execution context may be destroyed first.
///
/// Asking, pausing and stopping are those of every limit: limit_handle.
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

  /// By class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard]] net::awaitable<void> acquire(int priority);
  [[nodiscard]] bool try_acquire(int priority) { return try_acquire(request{.priority = priority}); }

  /// Gives back tokens that were granted and not used; beyond the burst they are lost.
  void refund(std::uint64_t tokens);
  /// Takes tokens that were used and not asked for; below zero, the next grant is so much later.
  void charge(std::uint64_t tokens);

  /// Changes the limit for everybody who waits, at once. The level stays, up to the new burst.
  void set_rate(const canigo::rate& r);
  void set_burst(std::uint64_t burst);

  /// A lower bound on the wait of `r` if it came now: those ahead of it stay, nobody more important comes.
  duration estimate(request r) const;

  /// Allocates.
  scheduler_stats stats() const;
};

}  // namespace canigo
