#pragma once

#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/shared_cap.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace canigo {

/// One of the rates of a limiter.
struct rate_limit {
  canigo::rate rate;                 ///< tokens released per period
  std::uint64_t burst = 1;           ///< most tokens kept while nobody asks, 1 to 2^62; the largest request, too
  std::uint64_t initial_tokens = 0;  ///< 0 to burst
};

inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

struct limiter_options {
  std::vector<rate_limit> rates = {};     ///< all must admit; up to 16, or none if there is a cap or a share
  std::uint64_t concurrency = unlimited;  ///< most permits out at once, whatever they weigh; 1 or more
  std::optional<shared_cap> share = {};   ///< a cap that several limiters share; each permit takes one place of it
  int priorities = 1;                     ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;      ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;
  duration ageing = duration::max();  ///< a waiter rises one class per `ageing` waited; max: never
};

struct limiter_stats : queue_stats {
  std::vector<std::int64_t> tokens;  ///< of each rate, to be had now; below 0: charged beyond what was there
  std::uint64_t held = 0;            ///< permits out now, or on their way to who was granted them
  std::uint64_t concurrency = 0;
};

/// What keeps the first in the queue from going.
struct wait_reason {
  enum class cause {
    none,         ///< nobody waits
    paused,       ///< pause_until()
    rate,         ///< the one at `index`, which lets it go last
    concurrency,  ///< all permits are out
    share,        ///< all places of the shared cap are taken
  };
  cause binds = cause::none;
  std::size_t index = 0;
  time_point until = time_point::max();  ///< max where it ends with a resume(), or with a permit that is given back
};

/// Several limits as one: a request is admitted by all rates and by the cap on concurrency in one step, or not at all.
///
/// Nothing is held while waiting for another limit. Each rate keeps the promises of canigo::scheduler, the cap those of
/// canigo::semaphore, and so does the queue. Every rate is asked for `request.tokens`; the cap for one place. What is
/// known only afterwards is settled with the permit: `p.settle(used)`.
///
/// Asking, pausing and stopping are those of every limit: limit_handle.
///
/// Errors, cancellation, threads, lifetime: as canigo::scheduler and canigo::semaphore.
class limiter : public limit_handle<detail::permit_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  limiter(const net::any_io_executor& executor, const limiter_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  limiter(ExecutionContext& context, const limiter_options& options)
      : limiter{net::any_io_executor{context.get_executor()}, options} {}

  /// By class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard]] net::awaitable<permit> acquire(int priority);
  [[nodiscard]] std::optional<permit> try_acquire(int priority) { return try_acquire(request{.priority = priority}); }

  /// Changes a limit for everybody who waits, at once. The level of a rate stays, up to the new burst.
  ///
  /// Errors: errc::invalid_argument for an index that is not one, and for a value out of range; nothing has changed
  /// then.
  void set_rate(std::size_t index, const canigo::rate& r);
  void set_burst(std::size_t index, std::uint64_t burst);
  void set_concurrency(std::uint64_t concurrency);

  /// Which limit binds, and when it lets the first in the queue go.
  wait_reason why_waiting() const;

  /// A lower bound on the wait of `r` if it came now: what the rates and a pause say; permits may come back at any
  /// moment.
  duration estimate(request r) const;

  /// Allocates.
  limiter_stats stats() const;
};

}  // namespace canigo
