#pragma once

#include "canigo/concepts.hpp"
#include "canigo/net.hpp"
#include "canigo/request.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>
#include <tuple>
#include <utility>

namespace canigo {

namespace detail {

/// What one of several limits is asked for: of a cap one place, whatever it is that the others count.
template <limit L>
request part_of(request r) noexcept {
  if constexpr (concurrency_limit<L>) r.tokens = 1;
  return r;
}

template <class T, limit L>
net::awaitable<T> run_inside(net::awaitable<T> op, L* only, request r, bool* started) {
  if constexpr (permit_like<grant_of<L>>) {
    const auto p = co_await only->acquire(r);
    *started = true;
    if constexpr (revocable_permit<grant_of<L>>) {
      co_return co_await p.wrap(std::move(op));
    } else {
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
    co_return co_await run_inside(std::move(op), first, part_of<First>(r), started);
  } else {
    bool admitted = false;
    net::awaitable<T> inner = run_inside_all(std::move(op), r, started, rest...);
    try {
      co_return co_await run_inside(std::move(inner), first, part_of<First>(r), &admitted);
    } catch (...) {
      if constexpr (throughput_limit<First>) {
        if (admitted && !*started) first->refund(r.tokens);
      }
      throw;
    }
  }
}

}  // namespace detail

/// Runs `op` once the limit lets it go: `auto r = co_await with_limit(call(), slots, {.priority = 1})`.
///
/// What is held is given back when `op` has really ended, however it ends, and before the caller goes on. A permit that
/// can be lost, such as redis::permit, cancels `op` when it is; that ends with errc::lease_lost. `op` does not start
/// before it is let go, nor at all if that fails. Nests: with_timeout(with_limit(op(), slots), 2s) counts the wait,
/// with_limit(with_timeout(op(), 2s), slots) does not; and it is what a task of a pool can be.
///
/// The limit must live until this ends, unless ending it is what its destruction does.
/// Errors: those of limit.acquire(); all of `op`. Cancellation: passed on to whichever is under way.
/// Completes on the awaiting coroutine's executor. Allocates: its coroutine frame, which Asio recycles, and what
/// acquire() does.
template <class T, limit L>
net::awaitable<T> with_limit(net::awaitable<T> op, L& only, request r = {}) {
  bool started = false;
  co_return co_await detail::run_inside(std::move(op), &only, r, &started);
}

/// The same for several limits, one after the other in the order given:
/// `with_limits(call(), std::tie(slots, quota), {.tokens = 800})`. Caps go first, and quotas last: tokens wait for
/// nobody.
///
/// All are asked with the same priority and deadline; a cap for one place, the others for `r.tokens`. Where a later
/// limit refuses, the earlier ones get back what they gave. Unlike those of a canigo::limiter, places are held while
/// waiting for the next limit: callers that wait for a slow quota can hold all the slots, and starve those of a fast
/// quota that share them. Where all limits are in this process a limiter holds nothing while it waits; and where
/// several quotas have slots in common, they are limiters with a shared_cap.
template <class T, limit... Limits>
  requires(sizeof...(Limits) > 0)
net::awaitable<T> with_limits(net::awaitable<T> op, std::tuple<Limits&...> limits, request r = {}) {
  bool started = false;
  co_return co_await std::apply(
      [&](Limits&... each) { return detail::run_inside_all(std::move(op), r, &started, &each...); }, limits);
}

}  // namespace canigo
