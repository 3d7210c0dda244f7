#pragma once

#include "canigo/adaptive_permit.hpp"
#include "canigo/algorithms/aimd.hpp"
#include "canigo/algorithms/knee.hpp"
#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/around/adaptive_waiter.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <variant>

namespace canigo {

struct adaptive_limit_options {
  std::uint64_t initial = 20;                   ///< the limit at first; least to most
  std::uint64_t least = 1;                      ///< 1 or more
  std::uint64_t most = 1000;                    ///< least to 1,000,000
  std::variant<knee, aimd> algorithm = knee{};  ///< knee needs no number; aimd has a target for the latency
  int priorities = 1;                           ///< classes 0 (first) … priorities-1; 1 to 1024
  std::size_t queue_limit = 100'000;            ///< most waiters, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a newcomer; any but overflow::wait
  duration ageing = duration::max();            ///< a waiter rises one class per `ageing` waited; max: never
  shedding_options shedding = {};               ///< which waiters end in an overload; default: none
  std::string name = {};                        ///< for the texts of errors
};

struct adaptive_limit_stats : queue_stats {
  std::uint64_t held = 0;   ///< permits that are out, or granted and on their way
  std::uint64_t limit = 0;  ///< less than `held` for a while after it fell
  duration baseline{};      ///< the latency of a callee that is not overloaded, or aimd's target; 0: not known yet
  duration latency{};       ///< the median of the last window
  limit_decision last_decision{};
  std::uint64_t succeeded = 0;
  std::uint64_t dropped = 0;
  std::uint64_t given_up = 0;    ///< reported as cancelled
  std::uint64_t unreported = 0;  ///< permits that were released without a report
};

/// A limit on how many calls are under way, which finds its own value: `with_limit(query(), db)`.
///
/// It learns from the latency of the calls and from those that are dropped, by the algorithm canigo::knee or
/// canigo::aimd. Callers report how their call ended: with_limit() does, or `p.succeeded()` and `p.dropped()`.
///
/// Promises: those of canigo::semaphore, for one permit a request; `request.tokens` says nothing here. When the limit
/// falls, the permits that are out stay good, and no request is granted until fewer are out. Priorities hold meanwhile.
///
/// The members for asking, pausing, listing and stopping are those of every limit: limit_handle.
///
/// Errors, cancellation, threads, lifetime: as canigo::semaphore.
/// An awaitable or deferred operation that has not been started refers to this object: start it before this object is
/// destroyed.
class adaptive_limit : public limit_handle<detail::adaptive_waiter> {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  adaptive_limit(const net::any_io_executor& executor, const adaptive_limit_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  adaptive_limit(ExecutionContext& context, const adaptive_limit_options& options)
      : adaptive_limit{net::any_io_executor{context.get_executor()}, options} {}

  /// Asks by class alone. The other forms, and async_acquire, pause, resume and stop, are those of limit_handle.
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<adaptive_permit> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<adaptive_permit> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] std::optional<adaptive_permit> try_acquire(int priority) {
    return try_acquire(request{.priority = priority});
  }

  /// The calls that may be under way just now.
  std::uint64_t limit() const noexcept;
  /// The median latency of the calls of the last window; 0 as long as it is not known.
  duration latency() const noexcept;
  /// Allocates.
  adaptive_limit_stats stats() const;
};

}  // namespace canigo
