#pragma once

#include "canigo/algorithms/aimd.hpp"
#include "canigo/algorithms/knee.hpp"
#include "canigo/algorithms/limit_sample.hpp"
#include "canigo/detail/admission/permit_waiter.hpp"
#include "canigo/error.hpp"
#include "canigo/limit_handle.hpp"
#include "canigo/limit_options.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>

namespace canigo {

namespace detail {
class adaptive_waiter;
}

/// Permission to run, from an adaptive_limit, which learns from it how the call ended. Held until it is reported,
/// released or destroyed.
///
/// It may outlive its limit and the execution context, and may be dropped on any thread.
/// Threads: one at a time. Allocates: never.
class [[nodiscard]] adaptive_permit {
 public:
  adaptive_permit() noexcept = default;
  adaptive_permit(adaptive_permit&& other) noexcept
      : home_{other.home_},
        place_{std::move(other.place_)},
        since_{other.since_},
        waited_{other.waited_},
        in_flight_{other.in_flight_} {}
  adaptive_permit& operator=(adaptive_permit&& other) noexcept {
    adaptive_permit taken{std::move(other)};
    std::swap(home_, taken.home_);
    std::swap(place_, taken.place_);
    std::swap(since_, taken.since_);
    std::swap(waited_, taken.waited_);
    std::swap(in_flight_, taken.in_flight_);
    return *this;
  }
  ~adaptive_permit() { release(); }

  /// Says that the call begins only now: its latency counts from here. Use it if the caller has waited for something
  /// else since the grant.
  void begin() noexcept;

  /// Each of these reports how the call ended, and gives the place back. Afterwards the permit is empty.
  ///
  /// The call has succeeded: the time since the grant is its latency.
  void succeeded() noexcept { end(sample_outcome::ok); }
  /// The callee refused the call because it has too much to do, or did not answer in time.
  void dropped() noexcept { end(sample_outcome::dropped); }
  /// The caller gave the call up. The call counts only if it took long, or if it began after a longer wait.
  void cancelled() noexcept { end(sample_outcome::cancelled); }
  /// The call failed with `error`: like dropped() if is_overload_of_callee() says so, else like release().
  void failed_with(const std::exception_ptr& error) noexcept { is_overload_of_callee(error) ? dropped() : release(); }

  /// Gives the place back. The call is no sample. Idempotent.
  void release() noexcept { end(std::nullopt); }

  /// 1, or 0 once the permit is empty.
  std::uint64_t held() const noexcept { return place_.held(); }
  explicit operator bool() const noexcept { return static_cast<bool>(place_); }

 private:
  friend class detail::adaptive_waiter;
  /// `asked_at`: when the caller asked for it; time_point{}: now.
  adaptive_permit(detail::admission& home, permit place, time_point asked_at = {}) noexcept;
  void end(std::optional<sample_outcome> how) noexcept;

  detail::admission* home_ = nullptr;  // kept alive by the place
  permit place_;
  time_point since_{};
  duration waited_{};
  std::uint64_t in_flight_ = 0;
};

namespace detail {

/// A waiter whose handler takes an error code and the permit of an adaptive limit.
class adaptive_waiter : public permit_waiter {
 public:
  using permit_waiter::permit_waiter;
  using results = std::tuple<std::error_code, adaptive_permit>;
  using signature = void(std::error_code, adaptive_permit);
  using granted_type = adaptive_permit;

  static adaptive_permit granted(admission& home, const request& r) noexcept;
  static adaptive_permit granted(admission& home, int = 0) noexcept;

  results take_results() noexcept;
  static results failed(errc code) noexcept { return {make_error_code(code), adaptive_permit{}}; }
};

}  // namespace detail

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
  std::uint64_t limit = 0;  ///< the limit now; less than `held` for a while after the limit fell
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
/// Promises: those of canigo::semaphore, with one permit for each request; `request.tokens` has no effect. When the
/// limit falls, the permits that are out stay good, and no request is granted until fewer are out. Waiters keep their
/// order meanwhile.
///
/// The members for asking, pausing, listing and stopping are those of every limit: limit_handle.
///
/// Errors, cancellation, threads, lifetime: as canigo::semaphore.
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

  /// The number of calls that may be under way now.
  std::uint64_t limit() const noexcept;
  /// The median latency of the calls of the last window; 0 as long as it is not known.
  duration latency() const noexcept;
  /// Allocates.
  adaptive_limit_stats stats() const;
};

}  // namespace canigo
