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

/// The permit of an adaptive_limit: it allows one call, and reports to the limit how that call ended. The caller holds
/// a slot of the limit until the permit is reported, released or destroyed.
///
/// A permit may outlive its limit and the execution context, and may be dropped on any thread.
/// Threads: one thread at a time may use a permit. Allocates: never.
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

  /// Restarts the measurement of the call's latency now. Use it if the caller has waited for something else since the
  /// grant.
  void begin() noexcept;

  /// succeeded(), dropped(), cancelled() and failed_with() report how the call ended, and give the slot back.
  /// Afterwards the permit is empty.
  ///
  /// succeeded() reports a success. The latency of the call is the time since the grant, or since begin().
  void succeeded() noexcept { end(sample_outcome::ok); }
  /// Reports that the callee refused the call because of overload, or did not answer in time.
  void dropped() noexcept { end(sample_outcome::dropped); }
  /// Reports that the caller gave the call up. The limit counts such a call only if it ran for long, or if it had
  /// waited for its slot for longer than it ran; see knee_control and aimd_control.
  void cancelled() noexcept { end(sample_outcome::cancelled); }
  /// Reports that the call failed with `error`: calls dropped() if is_overload_of_callee(error), otherwise release().
  void failed_with(const std::exception_ptr& error) noexcept { is_overload_of_callee(error) ? dropped() : release(); }

  /// Gives the slot back without a report, so the limit learns nothing from this call. Idempotent.
  void release() noexcept { end(std::nullopt); }

  std::uint64_t held() const noexcept { return place_.held(); }
  explicit operator bool() const noexcept { return static_cast<bool>(place_); }

 private:
  friend class detail::adaptive_waiter;
  /// `asked_at` is the time at which the caller made its request; time_point{} stands for the time of the grant.
  adaptive_permit(detail::admission& home, permit place, time_point asked_at = {}) noexcept;
  void end(std::optional<sample_outcome> how) noexcept;

  detail::admission* home_ = nullptr;  // the engine of the limit; the slot in `place_` keeps it alive
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
  std::uint64_t initial = 20;                   ///< the limit at the start; from `least` to `most`
  std::uint64_t least = 1;                      ///< the lower bound of the limit; 1 or more
  std::uint64_t most = 1000;                    ///< the upper bound of the limit; from `least` to 1,000,000
  std::variant<knee, aimd> algorithm = knee{};  ///< knee needs no setting; aimd needs a target latency
  int priorities = 1;                           ///< number of priority classes, 1 to 1024; class 0 goes first
  std::size_t queue_limit = 100'000;            ///< max number of waiters, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a full queue treats a new request; overflow::wait is invalid
  duration ageing = duration::max();            ///< waiting time after which a waiter rises by one class; max: never
  shedding_options shedding = {};               ///< ends waiters during an overload; default: never
  std::string name = {};                        ///< appears in error messages
};

struct adaptive_limit_stats : queue_stats {
  std::uint64_t held = 0;   ///< permits in use, including those that are granted but not yet delivered
  std::uint64_t limit = 0;  ///< the current limit; after it fell, `held` may exceed it for a while
  duration baseline{};      ///< the latency of a callee that is not overloaded, or aimd's target; 0: not known yet
  duration latency{};       ///< the median latency of the last window
  limit_decision last_decision{};
  std::uint64_t succeeded = 0;
  std::uint64_t dropped = 0;
  std::uint64_t given_up = 0;    ///< calls that their callers reported as cancelled
  std::uint64_t unreported = 0;  ///< permits that were released without a report
};

/// A limit on the number of calls under way that adapts itself to the callee: `with_limit(query(), db)`.
///
/// The algorithm, canigo::knee or canigo::aimd, adapts the limit to the latency of calls and to dropped calls. The end
/// of each call must be reported. with_limit() reports it automatically; otherwise call `p.succeeded()` or
/// `p.dropped()` on the permit `p`.
///
/// Promises: those of canigo::semaphore, with one permit for each request; `request.tokens` has no effect. When the
/// limit falls, issued permits stay valid, and no request is granted until fewer than the new limit are held. Waiters
/// keep their order meanwhile.
///
/// The base class limit_handle has the members for acquiring, pausing, listing and stopping.
///
/// Errors, cancellation, threads and lifetime are those of canigo::semaphore.
class adaptive_limit : public limit_handle<detail::adaptive_waiter> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  adaptive_limit(const net::any_io_executor& executor, const adaptive_limit_options& options);
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  adaptive_limit(ExecutionContext& context, const adaptive_limit_options& options)
      : adaptive_limit{net::any_io_executor{context.get_executor()}, options} {}

  /// Overloads for requests that have only a priority class. The base class limit_handle has the other overloads, and
  /// also async_acquire(), pause(), resume() and stop().
  using limit_handle::acquire;
  using limit_handle::try_acquire;
  [[nodiscard("co_await it")]] net::awaitable<adaptive_permit> acquire(int priority);
  [[nodiscard("co_await it")]] net::awaitable<adaptive_permit> acquire(int priority, std::error_code& error) {
    return acquire(request{.priority = priority}, error);
  }
  [[nodiscard("was it granted?")]] std::optional<adaptive_permit> try_acquire(int priority) {
    return try_acquire(request{.priority = priority});
  }

  /// The current limit: how many calls may be under way.
  std::uint64_t limit() const noexcept;
  /// The median latency of the calls of the last window; 0 until it is known.
  duration latency() const noexcept;
  /// Allocates memory for the returned statistics.
  adaptive_limit_stats stats() const;
};

}  // namespace canigo
