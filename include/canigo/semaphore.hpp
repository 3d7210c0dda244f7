#pragma once

#include "canigo/detail/admission/awaited.hpp"
#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <system_error>

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

/// Lets so many in at once, the important ones first: `permit p = co_await semaphore.acquire(priority)`.
///
/// `request.tokens` is the weight, the number of permits wanted as one. At no instant are more permits out than there
/// are. Between classes priority is strict, inside a class the order is that of arrival, and a heavy request is not
/// overtaken by a lighter one of its class. A permit that is dropped goes to who is first then, in the same instant.
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
class semaphore {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  semaphore(const net::any_io_executor& executor, const semaphore_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  semaphore(ExecutionContext& context, const semaphore_options& options)
      : semaphore{net::any_io_executor{context.get_executor()}, options} {}
  ~semaphore();
  semaphore(const semaphore&) = delete;
  semaphore& operator=(const semaphore&) = delete;

  /// Waits until the permits are there and takes them. Throws std::system_error.
  ///
  /// One that is granted at once does not go through the event loop, except after 128 such in a row.
  /// Completes on the awaiting coroutine's executor. Allocates nothing but its coroutine frame, which Asio recycles.
  net::awaitable<permit> acquire(request r);
  net::awaitable<permit> acquire(int priority = 0);

  /// The same for any completion token; signature void(std::error_code, permit). Always completes by a post.
  ///
  /// Completes on the handler's associated executor, by default the semaphore's. Allocates one operation with the
  /// handler's associated allocator; without memory the handler gets errc::not_enough_memory.
  template <net::completion_token_for<void(std::error_code, permit)> Token>
  auto async_acquire(request r, Token&& token) {
    return net::async_initiate<Token, void(std::error_code, permit)>(
        detail::start_waiting<detail::permit_waiter>{admission_}, token, r);
  }

  /// Takes the permits if they are there and nobody waits; never waits.
  ///
  /// Throws std::system_error for a priority or a weight that can't be; empty once stopped.
  std::optional<permit> try_acquire(const request& r);
  std::optional<permit> try_acquire(int priority = 0) { return try_acquire(request{.priority = priority}); }

  /// Changes how many there are, 1 to 2^62. Revokes none: after less, nobody is let in until enough have been dropped.
  void resize(std::uint64_t permits);

  /// Lets nobody in until `t`, or until resume().
  void pause_until(time_point t);
  void pause() { pause_until(time_point::max()); }
  void resume();

  /// Allocates.
  semaphore_stats stats() const;

  /// Ends every waiter with errc::stopped, and every later acquire. Idempotent.
  void stop() noexcept;

  net::any_io_executor get_executor() const;

 private:
  detail::admission* admission_;
};

}  // namespace canigo
