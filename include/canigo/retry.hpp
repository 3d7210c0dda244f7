#pragma once

#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/detail/coro/named_first.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/detail/coro/retry_plan.hpp"
#include "canigo/net.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/time.hpp"
#include "canigo/timeout.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_state.hpp>
#include <asio/this_coro.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo {

namespace detail {

template <repeatable Make>
auto run_retry(Make make, retry_policy policy, deadline_point deadline) -> net::awaitable<result_of_repeatable<Make>> {
  using result = result_of_repeatable<Make>;
  retry_plan plan{policy, deadline};
  if (deadline != time_point::max()) {
    const net::any_io_executor executor = co_await net::this_coro::executor;
    check_deadline(executor, deadline);
  }
  plan.begin();
  for (;;) {
    std::exception_ptr failure;
    try {
      if constexpr (std::is_void_v<result>) {
        co_await call_repeatable(make, plan.attempt());
        co_return;
      } else {
        co_return co_await call_repeatable(make, plan.attempt());
      }
    } catch (...) {
      failure = std::current_exception();
    }
    const net::cancellation_state state = co_await net::this_coro::cancellation_state;
    if (state.cancelled() != net::cancellation_type::none) std::rethrow_exception(failure);
    const net::any_io_executor executor = co_await net::this_coro::executor;
    const time_point now = now_on(executor);
    const time_point at = plan.again_at(failure, now, random_of(executor));
    if (at == time_point::max()) std::rethrow_exception(failure);
    if (at > now) co_await sleep_until(at);
  }
}

}  // namespace detail

/// Calls `make` and awaits the operation that it returns; repeats that after a failure, as long as the policy allows
/// it.
///
///     auto rows = co_await canigo::retry([&] { return with_limit(query(), db); }, {.attempts = 4, .budget = &budget});
///
/// Each attempt is a new call of `make`. So an attempt that enters a limit joins the queue again, at the end of its
/// class. `make` may take the number of the attempt as an argument, counted from 1. retry() keeps its own copy of
/// `make` until it ends.
///
/// The first attempt always runs. A further attempt follows unless:
/// - the operation or the caller was cancelled;
/// - policy.attempts have been made, 3 by default;
/// - policy.retry_if rejects the failure;
/// - the delay before that attempt ends at `deadline` or later;
/// - policy.budget is empty.
///
/// If no further attempt follows, retry() throws the failure of the last attempt unchanged. It does not cancel an
/// attempt at the deadline; use with_deadline() around retry() or inside `make` for that.
///
/// Retry only operations that may safely run twice.
/// Errors: those of `make` and of its operation. Before the first attempt: errc::invalid_argument for a policy with a
/// field out of range; errc::deadline_unreachable if the deadline has passed.
/// Cancellation: passed on to the attempt, or ends the wait for the next attempt. No attempt follows.
/// Completes on the awaiting coroutine's executor. Allocates: coroutine frames, which Asio recycles.
/// Lifetime: everything that `make` and the policy refer to must live until retry() ends. Until its awaitable is
/// started, retry() calls nothing and pays nothing into the budget.
template <class Make>
  requires detail::repeatable<std::decay_t<Make>>
[[nodiscard("co_await it")]] auto retry(Make&& make, retry_policy policy = {}, deadline_point deadline = {})
    -> detail::named_first<Make, detail::result_of_repeatable<std::decay_t<Make>>> {
  using own = std::decay_t<Make>;
  return detail::named_first<Make, detail::result_of_repeatable<own>>{
      detail::run_retry<own>(std::forward<Make>(make), policy, deadline)};
}
/// If `make` does not return an awaitable, the call does not compile. The compiler's message says what to pass instead.
template <class Make>
  requires(!detail::repeatable<std::decay_t<Make>>)
net::awaitable<void> retry(Make&&, retry_policy = {}, deadline_point = {}) {
  detail::refuse_to_repeat<std::decay_t<Make>>();
  return {};
}

}  // namespace canigo
