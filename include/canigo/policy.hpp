#pragma once

#include "canigo/adaptive_limit.hpp"
#include "canigo/algorithms/histogram.hpp"
#include "canigo/circuit_breaker.hpp"
#include "canigo/detail/coro/named_first.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/detail/coro/run_and_report.hpp"
#include "canigo/detail/policy/policy_core.hpp"
#include "canigo/error.hpp"
#include "canigo/hedge.hpp"
#include "canigo/hedge_options.hpp"
#include "canigo/limiter.hpp"
#include "canigo/net.hpp"
#include "canigo/permit.hpp"
#include "canigo/request.hpp"
#include "canigo/retry.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"
#include "canigo/timeout.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/this_coro.hpp>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

/// The parts of a policy, in the order in which a call passes them. Each part is optional, and works in the same way as
/// outside of a policy.
struct policy_options {
  std::optional<duration> timeout = {};  ///< limit of a whole call with all its parts; more than 0; max: no time limit
  std::optional<circuit_breaker_options> breaker = {};  ///< refuses calls immediately while the upstream fails
  /// Starts copies of a slow call, for idempotent work only. `group` must be null. Without a `budget` or a `window`,
  /// the policy creates the missing object.
  std::optional<hedge_options> hedge = {};
  /// Starts the operation again after a failure. Without a `budget`, the policy creates one. Without `retry_if`,
  /// is_failure_of_callee() decides which failures are worth another attempt.
  std::optional<retry_policy> retry = {};
  /// A limit on operations under way that adapts itself to the upstream. If `limits` is set, `limits` and `adaptive`
  /// must have the same number of priorities.
  std::optional<adaptive_limit_options> adaptive = {};
  std::optional<limiter_options> limits = {};  ///< rates, and a cap on operations under way
  /// time limit of each operation, counted from its start, after its wait for the limits; more than 0; max: no limit
  std::optional<duration> attempt_timeout = {};
  std::string name = {};  ///< appears in error messages; parts without a name get this name
};

/// The calls of a policy, counted by how they ended. Each call counts once among the first six members, when it ends.
struct policy_stats {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;  ///< calls that ended with an error of the operation
  /// calls that reached the timeout or the deadline, or had too little time left for an operation
  std::uint64_t timed_out = 0;
  std::uint64_t cancelled = 0;     ///< calls that the caller cancelled
  std::uint64_t refused = 0;       ///< calls that a limit refused before any operation had started
  std::uint64_t circuit_open = 0;  ///< calls that the circuit breaker refused
  std::uint64_t under_way = 0;     ///< calls that have not ended
  std::uint64_t operations = 0;    ///< operations that were started, including retries and copies
  wait_histogram took;             ///< the time from the call to its result, for successful calls
};

/// One object with everything that protects an upstream from this program, and this program from the upstream.
///
///     canigo::policy crm{io, {.timeout = 2s, .breaker = canigo::circuit_breaker_options{}, .limits = quota}};
///     auto page = co_await crm.run([&] { return get(url); }, {.priority = 1});
///
/// A call passes the parts in this order:
/// 1. **timeout**, or the deadline of the request if that is earlier. The call ends then, in whatever part it is.
/// 2. **breaker**. An open breaker refuses the call before it waits for anything. A call with its retries and copies
///    counts once. Its duration is measured from the start of its first operation.
/// 3. **hedge**. Each copy passes the parts below separately.
/// 4. **retry**. Each attempt passes the parts below separately: it joins the queue again, at the end of its class.
/// 5. **adaptive**, then **limits**: an adaptive limit on operations under way; then rates, a cap and priorities. The
///    adaptive limit measures an operation from its start, without the wait for the limits. The wait for the adaptive
///    limit ends when half of the time left at its start is over, and less time is left than two usual operations take.
///    Then the call ends with errc::timed_out, without another attempt.
/// 6. **attempt_timeout** and the operation.
///
/// If a call ends at the timeout, the breaker counts a failure only if operations ran for the larger part of the call's
/// time. Waits before, between and after operations do not count. If operations ran for less time, this program was too
/// slow, and the breaker does not count the call. The breaker does not count calls that a limit refused or the caller
/// cancelled either. A request may have a deadline before the timeout. If a call ends at such a deadline, the
/// operations must also have run for a minimum time. Otherwise the breaker does not count the call. The minimum is half
/// of `timeout`, half of `attempt_timeout` or `breaker->slow`, whichever is least. So callers with short deadlines do
/// not open the breaker. If none of these three is set, there is no minimum.
///
/// An operation may call the policy that it runs in; that call needs another slot. If the operations in all slots
/// waited for a slot, they would wait forever. So the last of these calls ends with
/// std::errc::resource_deadlock_would_occur, before it takes anything. The slots are counted at the start of the wait,
/// so a cap that is lowered later is not noticed. A nested call is recognized by its executor, which operators like `a
/// && b` and timeouts pass on. If an operation spawns a coroutine on that executor, the coroutine's calls count as
/// nested until the operation ends, even if the operation does not wait for them. To avoid that, spawn the coroutine on
/// the execution context.
///
/// Errors: those of the operation; those of the limits (see canigo::limiter); circuit_open_error; errc::timed_out at
/// the timeout; std::errc::resource_deadlock_would_occur. If a call with retries fails, its error is that of the last
/// attempt.
/// Cancellation: terminal, partial, total; passed on to the wait or the operation that is under way. The call ends when
/// that wait or operation has ended.
/// Threads: any thread may call any member at any time.
/// Allocates: coroutine frames, most of which Asio recycles. With a timeout, a deadline or a hedge, also a strand for
/// each call. With a cap or an adaptive limit, also an object for each operation, by which nested calls are recognized.
/// Lifetime: the policy must outlive its calls. stop() ends the calls that wait for the limits.
class policy {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  policy(const net::any_io_executor& executor, const policy_options& options) : core_{executor, options} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  policy(ExecutionContext& context, const policy_options& options)
      : policy{net::any_io_executor{context.get_executor()}, options} {}

  /// Runs the operation that `make` returns through all parts of the policy.
  ///
  /// `make` is called once for each attempt of each copy. It may take the number of the operation as an argument,
  /// counted from 1. run() keeps its own copy of `make` until the call ends.
  template <class Make>
    requires detail::repeatable<std::decay_t<Make>>
  [[nodiscard("co_await it")]] auto run(Make&& make, request r = {})
      -> detail::named_first<Make, detail::result_of_repeatable<std::decay_t<Make>>> {
    using own = std::decay_t<Make>;
    return detail::named_first<Make, detail::result_of_repeatable<own>>{run_own<own>(std::forward<Make>(make), r)};
  }
  /// If `make` does not return an awaitable, the program does not compile. The compiler's message says what to pass
  /// instead.
  template <class Make>
    requires(!detail::repeatable<std::decay_t<Make>>)
  net::awaitable<void> run(Make&&, request = {}) {
    detail::refuse_to_repeat<std::decay_t<Make>>();
    return {};
  }

  /// Access to a part of the policy, to change, pause or inspect it. Null if the policy does not have that part.
  circuit_breaker* breaker() noexcept { return core_.breaker ? &*core_.breaker : nullptr; }
  limiter* limits() noexcept { return core_.limits ? &*core_.limits : nullptr; }
  adaptive_limit* adaptive() noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  const adaptive_limit* adaptive() const noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  const circuit_breaker* breaker() const noexcept { return core_.breaker ? &*core_.breaker : nullptr; }
  const limiter* limits() const noexcept { return core_.limits ? &*core_.limits : nullptr; }

  /// Ends all current and later waits for the limits with errc::stopped. Operations under way continue.
  void stop() noexcept { core_.stop(); }

  policy_stats stats() const noexcept { return core_.stats(); }

 private:
  template <class Make>
  auto run_own(Make make, request r) -> net::awaitable<detail::result_of_repeatable<Make>> {
    using result = detail::result_of_repeatable<Make>;
    const net::any_io_executor executor = co_await net::this_coro::executor;
    detail::policy_call call{core_, executor, r};
    std::exception_ptr error;
    try {
      call.enter();
      net::awaitable<result> op = copies<result>(make, call);
      if (call.deadline() != time_point::max()) op = with_deadline(std::move(op), call.deadline());
      if constexpr (std::is_void_v<result>) {
        co_await std::move(op);
        call.succeeded();
        co_return;
      } else {
        result value = co_await std::move(op);
        call.succeeded();
        co_return value;
      }
    } catch (...) {
      error = std::current_exception();
    }
    const net::cancellation_state state = co_await net::this_coro::cancellation_state;
    std::rethrow_exception(call.failed(std::move(error), state.cancelled() != net::cancellation_type::none));
  }

  template <class Result, class Make>
  net::awaitable<Result> copies(Make& make, detail::policy_call& call) {
    if (!core_.hedge) return attempts<Result>(make, call);
    return hedge([this, &make, &call] { return attempts<Result>(make, call); }, *core_.hedge);
  }

  template <class Result, class Make>
  net::awaitable<Result> attempts(Make& make, detail::policy_call& call) {
    if (!core_.retry) return attempt<Result>(make, call);
    return retry([&make, &call] { return attempt<Result>(make, call); }, *core_.retry, call.deadline());
  }

  template <class Result, class Make>
  static net::awaitable<Result> attempt(Make& make, detail::policy_call& call) {
    std::optional<detail::policy_call::wait> wait{std::in_place, call};
    adaptive_permit place;
    if (adaptive_limit* const a = call.adaptive(); a != nullptr) {
      try {
        place = co_await a->acquire(call.asks_place());
      } catch (const std::system_error& e) {
        if (e.code() == errc::timed_out) call.throw_too_late(e);
        throw;
      }
    }
    permit p;
    if (limiter* const l = call.limits(); l != nullptr) p = co_await l->acquire(call.asks());
    wait.reset();
    const net::any_io_executor executor = co_await net::this_coro::executor;
    detail::policy_call::operation one{call, executor};
    one.hold(std::move(p));
    net::awaitable<Result> op = one.marked(detail::call_repeatable(make, one.number));
    if (call.attempt_timeout()) op = with_timeout(std::move(op), *call.attempt_timeout());
    if (!place) co_return co_await std::move(op);
    place.begin();
    co_return co_await detail::run_and_report(std::move(op), place);
  }

  detail::policy_core core_;
};

}  // namespace canigo
