#pragma once

#include "canigo/concepts.hpp"
#include "canigo/detail/coro/repeatable.hpp"
#include "canigo/detail/coro/run_and_report.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"

#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>

#include <cstdint>
#include <exception>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo {

namespace detail {

template <class L>
inline constexpr bool names_limit = std::is_lvalue_reference_v<L> && limit<std::remove_reference_t<L>>;
template <class Tuple>
inline constexpr bool names_limits = false;
template <class... L>
inline constexpr bool names_limits<std::tuple<L...>> = (names_limit<L> && ...);

/// An operation makes the same request `r` to several limits. Returns the part of `r` for the limit `L`. If `L` has
/// only a cap on concurrency, the part requests one slot, whatever `r.tokens` is. Only the part for a limiter contains
/// `r.amounts`.
template <limit L>
request part_of(request r) noexcept {
  if constexpr (concurrency_limit<L>) r.tokens = 1;
  if constexpr (concurrency_limit<L> || throughput_limit<L>) r.amounts = {};
  return r;
}

/// A permit that must be told how the operation ended, such as the permit of an adaptive_limit.
template <class P>
concept reporting_permit = permit_like<P> && requires(P& p, const std::exception_ptr& error) {
  p.succeeded();
  p.cancelled();
  p.failed_with(error);
};

/// A permit of a limiter, whose settle() tells how many tokens the operation has used.
template <class P>
concept settling_permit = permit_like<P> && requires(P& p) {
  p.settle(std::uint64_t{});
  p.settle(unit_key{0}, std::uint64_t{});
};

/// Runs `op`. `*ran` becomes true when the limits inside `op` have granted their requests. If `op` throws while `*ran`
/// is false, all tokens of the permit are given back.
template <class T, settling_permit P>
net::awaitable<T> run_or_give_back(net::awaitable<T> op, P& p, request r, const bool* ran) {
  try {
    co_return co_await std::move(op);
  } catch (...) {
    if (!*ran) {
      p.settle(0);
      for (const unit_amount& a : r.amounts) p.settle(a.unit, 0);
    }
    throw;
  }
}

/// Waits until the limit `only` grants the request `r`, sets `*started`, and then runs `op`. `*ran` tells whether all
/// limits inside `op` have granted their requests; `ran` is null if `op` has no limits.
template <class T, limit L>
net::awaitable<T> run_inside(net::awaitable<T> op, L* only, request r, bool* started, const bool* ran) {
  if constexpr (permit_like<grant_of<L>>) {
    auto p = co_await only->acquire(r);
    *started = true;
    if constexpr (reporting_permit<grant_of<L>>) {
      co_return co_await run_and_report(std::move(op), p, ran);
    } else {
      if constexpr (revocable_permit<grant_of<L>>) op = p.wrap(std::move(op));
      if constexpr (settling_permit<grant_of<L>> && !concurrency_limit<L>) {
        if (ran != nullptr) co_return co_await run_or_give_back(std::move(op), p, r, ran);
      }
      co_return co_await std::move(op);
    }
  } else {
    co_await only->acquire(r);
    *started = true;
    co_return co_await std::move(op);
  }
}

template <class T, limit First, limit... Rest>
net::awaitable<T> run_inside_all(net::awaitable<T> op, request r, bool* started, First* first, Rest*... rest) {
  if constexpr (sizeof...(Rest) == 0) {
    co_return co_await run_inside(std::move(op), first, part_of<First>(r), started, nullptr);
  } else {
    bool admitted = false;
    net::awaitable<T> inner = run_inside_all(std::move(op), r, started, rest...);
    try {
      co_return co_await run_inside(std::move(inner), first, part_of<First>(r), &admitted, started);
    } catch (...) {
      if constexpr (throughput_limit<First>) {
        if (admitted && !*started) first->refund(r.tokens);
      }
      throw;
    }
  }
}

}  // namespace detail

/// Runs `op` once the limit grants the request: `auto r = co_await with_limit(call(), slots, {.priority = 1})`.
///
/// `op` does not start before the grant, and never starts if the limit refuses. The permit is released when `op` has
/// really ended, with a result or an exception, and before the caller resumes. If the permit can be lost, such as
/// redis::permit, its loss cancels `op`. Then with_limit() ends with errc::lease_lost unless `op` still has a result.
///
/// An adaptive_limit is told how `op` ended: with a result, cancelled, or dropped. Dropped means a timeout or
/// errc::overloaded. Other errors are not reported to the limit.
///
/// with_limit() can be nested: with_timeout(with_limit(op(), slots), 2s) limits the wait and `op`,
/// with_limit(with_timeout(op(), 2s), slots) limits only `op`. Operations of a pool may also use with_limit().
///
/// Errors: those of limit.acquire(); all errors of `op`.
/// Cancellation: passed on to the wait or to `op`, whichever is under way.
/// Completes on the awaiting coroutine's executor. Allocates: its coroutine frame, which Asio recycles, and what
/// acquire() allocates.
/// Lifetime: the limit must live until with_limit() ends, unless the destruction of the limit ends with_limit().
template <class T, limit L>
[[nodiscard("co_await it")]] net::awaitable<T> with_limit(net::awaitable<T> op, L& only, request r = {}) {
  bool started = false;
  co_return co_await detail::run_inside(std::move(op), &only, r, &started, nullptr);
}
/// Rejects two mistakes at compile time: an `op` that is no awaitable, and a limit that is temporary, const or no limit
/// at all. The compiler's message says what to pass instead.
template <class Op, class L>
  requires(!detail::is_awaitable<std::remove_cvref_t<Op>> || !detail::names_limit<L>)
net::awaitable<void> with_limit(Op&&, L&&, request = {}) {
  if constexpr (!detail::is_awaitable<std::remove_cvref_t<Op>>) {
    static_assert(detail::is_awaitable<std::remove_cvref_t<Op>>,
                  "with_limit: the operation is wanted as an awaitable: with_limit(call(), limit), and neither its "
                  "function nor a lambda");
  } else if constexpr (!std::is_lvalue_reference_v<L>) {
    static_assert(std::is_lvalue_reference_v<L>,
                  "with_limit: a limit that is made here limits nothing: make it once, and name it here");
  } else {
    static_assert(detail::names_limit<L>,
                  "with_limit: a limit that is not const is wanted, such as a scheduler, a semaphore or a limiter");
  }
  return {};
}

/// Like with_limit(), for several limits that are acquired one after the other, in the given order:
/// `with_limits(call(), std::tie(slots, quota), {.tokens = 800})`.
///
/// Name caps on concurrency first and quotas last. A slot can be held during a further wait, but a token counts as used
/// from its grant.
///
/// All limits get the same priority and deadline; a cap is asked for one slot, other limits for `r.tokens`. If a later
/// limit refuses, the earlier limits get their slots and tokens back.
///
/// A flow belongs to one limit. So a request with a flow ends with errc::invalid_argument if `limits` contains a limit
/// to which the flow does not belong. Nest with_limit() instead, and name the flow only in the request to the flow's
/// limit.
///
/// Unlike a canigo::limiter, with_limits() holds slots while it waits for the next limit. Callers that wait for a slow
/// quota can hold all slots, and so starve callers of a fast quota that share these slots. If all limits are in this
/// process, use a limiter, which holds nothing while it waits. If several quotas have slots in common, use limiters
/// with a shared_cap.
template <class T, limit... Limits>
  requires(sizeof...(Limits) > 0)
[[nodiscard("co_await it")]] net::awaitable<T> with_limits(net::awaitable<T> op, std::tuple<Limits&...> limits,
                                                           request r = {}) {
  bool started = false;
  co_return co_await std::apply(
      [&](Limits&... each) { return detail::run_inside_all(std::move(op), r, &started, &each...); }, limits);
}
/// Rejects limits that are not in a std::tie, at compile time. The compiler's message shows how to write them.
template <class Op, class Limits>
  requires(!detail::names_limits<std::remove_cvref_t<Limits>>)
net::awaitable<void> with_limits(Op&&, Limits&&, request = {}) {
  static_assert(detail::names_limits<std::remove_cvref_t<Limits>>,
                "with_limits: name the limits in a std::tie: with_limits(call(), std::tie(slots, quota), request)");
  return {};
}
/// Rejects limits that are passed one by one, instead of in a std::tie, at compile time. The compiler's message shows
/// how to write them.
template <class Op, class First, class Second, class... Rest>
  requires(!detail::names_limits<std::remove_cvref_t<First>>)
net::awaitable<void> with_limits(Op&& op, First&& first, Second&&, Rest&&...) {
  return with_limits(std::forward<Op>(op), std::forward<First>(first));
}

}  // namespace canigo
