#pragma once

#include "canigo/detail/context/shared_alarm.hpp"
#include "canigo/detail/coro/child.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>
#include <asio/this_coro.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace canigo {

/// Suspends the calling coroutine until `t`. It always goes through the event loop, even if `t` has passed.
///
/// The time source of the coroutine's execution context measures the time, so testing::virtual_time controls it.
/// Errors: errc::not_enough_memory if Asio has no memory for a cancellation.
/// Cancellation: terminal, partial, total.
/// Completes on the awaiting coroutine's executor. Allocates nothing but its coroutine frame.
/// sleep_for() suspends for `d`, measured from the moment at which the caller awaits its awaitable.
[[nodiscard("co_await it")]] net::awaitable<void> sleep_until(time_point t);
[[nodiscard("co_await it")]] net::awaitable<void> sleep_for(duration d);
/// Rejects an argument that is no instant of steady_clock, at compile time. The compiler's message says what to use for
/// a span of time.
template <class T>
  requires(!std::is_convertible_v<T, time_point>)
net::awaitable<void> sleep_until(T) {
  static_assert(std::is_void_v<T>, "sleep_until: an instant of steady_clock is wanted; for a span there is sleep_for");
  return {};
}
/// Rejects an argument that is no span in whole units, such as 0.5, at compile time. The compiler's message shows how
/// to write a span.
template <class D>
  requires(!std::is_convertible_v<D, duration>)
net::awaitable<void> sleep_for(D) {
  static_assert(std::is_void_v<D>, "sleep_for: a span in whole units is wanted: 500ms, with std::chrono_literals");
  return {};
}

/// Runs `op` until `t` at the latest. At `t` it cancels `op` (terminal), and waits until `op` has really ended.
///
/// If `op` has a result, with_deadline() returns it, even after `t`. If `op` throws an exception of any type after `t`,
/// with_deadline() throws errc::timed_out. The type does not matter, because operators such as `a || b`, and channels,
/// have exception types of their own. `op` runs on a strand of the calling coroutine's executor, or on that executor if
/// it is a strand. So the cancellation is safe when several threads run the context.
/// Errors: errc::timed_out; all errors of `op`.
/// Cancellation: passed on to `op`.
/// Allocates: the strand, and what co_spawn allocates.
/// Until the returned awaitable is started, `op` does not begin.
template <class T>
[[nodiscard("co_await it")]] net::awaitable<T> with_deadline(net::awaitable<T> op, time_point t) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  const auto c = std::make_shared<detail::timed_child>(executor);
  c->start(t);
  // `armed` disarms the deadline at every exit from this scope.
  const std::unique_ptr<detail::timed_child, decltype([](detail::timed_child* p) { p->stop(); })> armed{c.get()};
  co_return co_await detail::run_child(c, std::move(op), make_error_code(errc::timed_out));
}

/// Like with_deadline(), but the deadline is `d` after the start of this awaitable. There is no limit if `d` reaches
/// beyond time_point::max(). If `d` is 0 or less, `op` is cancelled immediately.
template <class T>
[[nodiscard("co_await it")]] net::awaitable<T> with_timeout(net::awaitable<T> op, duration d) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  co_return co_await with_deadline(std::move(op), saturating_add(detail::now_on(executor), d));
}

/// Rejects a `t` that is no instant of steady_clock, at compile time. The compiler's message says what to use for a
/// span of time.
template <class T, class Instant>
  requires(!std::is_convertible_v<Instant, time_point>)
net::awaitable<T> with_deadline(net::awaitable<T>, Instant) {
  static_assert(std::is_void_v<Instant>,
                "with_deadline: an instant of steady_clock is wanted; for a span there is with_timeout");
  return {};
}
/// Rejects a `d` that is no span in whole units, such as 0.5, at compile time. The compiler's message shows how to
/// write a span.
template <class T, class Span>
  requires(!std::is_convertible_v<Span, duration>)
net::awaitable<T> with_timeout(net::awaitable<T>, Span) {
  static_assert(std::is_void_v<Span>,
                "with_timeout: a span in whole units is wanted: 500ms, with std::chrono_literals; "
                "for an instant there is with_deadline");
  return {};
}

}  // namespace canigo
