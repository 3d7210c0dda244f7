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

/// The parts of a policy, in the order in which a call meets them. Each is optional, and acts as it does outside of a
/// policy.
struct policy_options {
  std::optional<duration> timeout = {};                 ///< of a whole call with all its parts; more than 0; max: none
  std::optional<circuit_breaker_options> breaker = {};  ///< refuses calls at once while the upstream fails
  /// Copies of a slow call, for idempotent work only. `group` must be null. Without a `budget` or a `window`, the
  /// policy has one of its own.
  std::optional<hedge_options> hedge = {};
  /// Without a `budget`, the policy has one of its own. Without `retry_if`, is_failure_of_callee() decides.
  std::optional<retry_policy> retry = {};
  /// A cap on the operations that are under way, which finds its own value. It must have as many priorities as the
  /// limits, if there are any.
  std::optional<adaptive_limit_options> adaptive = {};
  std::optional<limiter_options> limits = {};    ///< rates, and a cap on operations that are under way
  std::optional<duration> attempt_timeout = {};  ///< of each operation, after the limits; more than 0; max: none
  std::string name = {};  ///< for the texts of errors; also that of parts without a name of their own
};

/// The calls of a policy, by their ends. A call counts once among the first six, when it ends.
struct policy_stats {
  std::uint64_t succeeded = 0;
  std::uint64_t failed = 0;        ///< with an error of the operation
  std::uint64_t timed_out = 0;     ///< at the timeout, at the deadline, or with too little time left for an operation
  std::uint64_t cancelled = 0;     ///< by the caller
  std::uint64_t refused = 0;       ///< by a limit, before any operation was started
  std::uint64_t circuit_open = 0;  ///< by the circuit breaker
  std::uint64_t under_way = 0;     ///< calls that have not ended
  std::uint64_t operations = 0;    ///< operations that were started, with retries and copies
  wait_histogram took;             ///< from the call to its result, of the calls that succeeded
};

/// All that stands between this program and one upstream, declared once.
///
///     canigo::policy crm{io, {.timeout = 2s, .breaker = canigo::circuit_breaker_options{}, .limits = quota}};
///     auto page = co_await crm.run([&] { return get(url); }, {.priority = 1});
///
/// A call meets the parts in this order:
/// 1. **timeout**, or the deadline of the request if that is earlier. The call ends there, wherever it is.
/// 2. **breaker**. An open one refuses before anything waits. A call is one sample, with its retries and copies. Its
///    time counts from the start of its first operation.
/// 3. **hedge**. Each copy meets the parts below by itself.
/// 4. **retry**. Each attempt meets the parts below by itself: it joins the queue again, at the end of its class.
/// 5. **adaptive**, then **limits**: a number of operations that finds its own value; rates, a cap and priorities. An
///    operation counts for the adaptive limit from its start, not from its wait for the limits. If it would start with
///    less time left than two usual calls take, the call ends at that point, with errc::timed_out. No attempt follows,
///    whatever `retry` says. At least half of the time that is left is for the wait.
/// 6. **attempt_timeout** and the operation.
///
/// A call that ends at the timeout is a failure for the breaker if the upstream has had the larger part of its time.
/// That is the time in which operations ran, without the waits before, between and after them. Else this program was
/// too slow, and the call is no sample. A call that a limit refused, or that was cancelled, is no sample either. A
/// request may have a deadline before the timeout. The upstream must then have had half of `timeout` or of
/// `attempt_timeout`, or `breaker->slow`, whichever is least. So callers in a hurry do not open the breaker. If none of
/// the three is set, each deadline counts.
///
/// An operation may call the policy that it runs in; that call needs another place. If the operations of all places
/// would wait for one, the last of these calls ends with std::errc::resource_deadlock_would_occur, before it takes
/// anything. The places are counted at the start of the wait: a smaller cap later is not seen. A call is recognized by
/// its executor, which operators like `a && b` and timeouts pass on. So a coroutine that an operation spawns there and
/// does not wait for counts like one that it waits for, until the operation ends. Spawn such a coroutine on the
/// context.
///
/// Errors: those of the operation; of the limits, for which see canigo::limiter; circuit_open_error; errc::timed_out at
/// the timeout; std::errc::resource_deadlock_would_occur. A retry ends with the error of the last attempt.
/// Cancellation: terminal, partial, total; passed on to the wait or the operation that is under way. The call ends when
/// that has ended.
/// Threads: any, all members, at once.
/// Allocates: coroutine frames, most of which Asio recycles. With a timeout, a deadline or a hedge also a strand for
/// the call; with a cap or an adaptive limit a mark for each operation.
/// Lifetime: it must live until all calls have ended. stop() helps to reach that.
class policy {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  policy(const net::any_io_executor& executor, const policy_options& options) : core_{executor, options} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  policy(ExecutionContext& context, const policy_options& options)
      : policy{net::any_io_executor{context.get_executor()}, options} {}

  /// Runs the operation that `make` returns through all parts.
  ///
  /// `make` is called once for each attempt of each copy. It may take the number of the operation, from 1. A copy of
  /// `make` lives until the call ends.
  template <class Make>
    requires detail::repeatable<std::decay_t<Make>>
  [[nodiscard("co_await it")]] auto run(Make&& make, request r = {})
      -> detail::named_first<Make, detail::result_of_repeatable<std::decay_t<Make>>> {
    using own = std::decay_t<Make>;
    return detail::named_first<Make, detail::result_of_repeatable<own>>{run_own<own>(std::forward<Make>(make), r)};
  }
  /// Does not compile: the compiler's message says what to write.
  template <class Make>
    requires(!detail::repeatable<std::decay_t<Make>>)
  net::awaitable<void> run(Make&&, request = {}) {
    detail::refuse_to_repeat<std::decay_t<Make>>();
    return {};
  }

  /// Each part, or null if the policy has none: to change it, to pause it, or to look at it.
  circuit_breaker* breaker() noexcept { return core_.breaker ? &*core_.breaker : nullptr; }
  limiter* limits() noexcept { return core_.limits ? &*core_.limits : nullptr; }
  adaptive_limit* adaptive() noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  const adaptive_limit* adaptive() const noexcept { return core_.adaptive ? &*core_.adaptive : nullptr; }
  const circuit_breaker* breaker() const noexcept { return core_.breaker ? &*core_.breaker : nullptr; }
  const limiter* limits() const noexcept { return core_.limits ? &*core_.limits : nullptr; }

  /// Ends all waits for the limits, now and later, with errc::stopped. Operations that are under way go on.
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
