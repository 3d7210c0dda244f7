#pragma once

#include "canigo/detail/context/misuse.hpp"
#include "canigo/net.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <type_traits>
#include <utility>

namespace canigo {

/// A permission to run. Its owner holds the permission until the permit is released or destroyed.
template <class P>
concept permit_like =
    std::default_initializable<P> && std::movable<P> && !std::copyable<P> && requires(P& p, const P& c) {
      p.release();
      { c.held() } noexcept -> std::same_as<std::uint64_t>;
      static_cast<bool>(c);
    };

/// A permit that can be lost while it is held, for example when a lease ends. When the permit is lost, wrap() cancels
/// its operation.
template <class P>
concept revocable_permit = permit_like<P> && requires(const P& c, net::awaitable<int> op) {
  { c.wrap(std::move(op)) } -> std::same_as<net::awaitable<int>>;
};

namespace detail {

template <class Awaitable>
struct grant;
template <class T>
struct grant<net::awaitable<T>> {
  using type = T;
};

}  // namespace detail

/// The type that acquire() of limit L returns: a permit, or void if nothing has to be given back.
template <class L>
using grant_of = typename detail::grant<decltype(std::declval<L&>().acquire(std::declval<const request&>()))>::type;

/// A limit grants requests by priority class, and inside a class in order of arrival: `co_await
/// limit.acquire(request)`.
///
/// Code that takes `limit auto&` works with limits of one process and with limits that several processes share.
/// Examples are scheduler, semaphore and limiter, and the classes of the same names in canigo::redis. Each limit:
/// - keeps the promises in the comment of canigo::request;
/// - ends every acquire() exactly once;
/// - consumes nothing for an acquire() that fails;
/// - may be used from any thread.
template <class L>
concept limit = requires(L& l, const L& c, const request& r, time_point t) {
  typename grant_of<L>;
  requires std::is_void_v<grant_of<L>> || permit_like<grant_of<L>>;
  l.async_acquire(r, detail::any_handler{});
  static_cast<bool>(l.try_acquire(r));
  l.pause_until(t);
  l.pause();
  l.resume();
  { c.stats() } -> std::derived_from<queue_stats>;
  { l.stop() } noexcept;
  { c.get_executor() } -> std::same_as<net::any_io_executor>;
};

/// A limit on the number of permits held at the same time: semaphore, redis::semaphore.
template <class L>
concept concurrency_limit =
    limit<L> && permit_like<grant_of<L>> && requires(L& l, std::uint64_t permits) { l.resize(permits); };

/// A limit on the number of tokens granted per time: scheduler, redis::scheduler.
template <class L>
concept throughput_limit =
    limit<L> && std::is_void_v<grant_of<L>> &&
    requires(L& l, const L& c, const request& r, const canigo::rate& speed, std::uint64_t tokens) {
      l.refund(tokens);
      l.charge(tokens);
      l.set_rate(speed);
      l.set_burst(tokens);
      { c.estimate(r) } -> std::same_as<duration>;
    };

/// Several limits in one object, whose permits report the real usage with settle(): limiter, redis::limiter.
template <class L>
concept combined_limit = limit<L> && permit_like<grant_of<L>> &&
                         requires(L& l, const L& c, const request& r, grant_of<L>& p, const canigo::rate& speed,
                                  std::size_t index, std::uint64_t n) {
                           l.set_rate(index, speed);
                           l.set_burst(index, n);
                           l.set_concurrency(n);
                           { c.estimate(r) } -> std::same_as<duration>;
                           p.settle(n);
                           p.settle("unit", n);
                         };

/// A separate limit for each key: keyed_scheduler, keyed_semaphore. acquire() and try_acquire() take the key first.
/// Apart from the key, a keyed limit behaves like a limit.
template <class L, class Key>
concept keyed_limit = requires(L& l, const L& c, const Key& key, const request& r, std::error_code& error) {
  { l.acquire(key, r) } -> std::same_as<decltype(l.acquire(key, r, error))>;
  static_cast<bool>(l.try_acquire(key, r));
  c.stats();
  { l.stop() } noexcept;
  { c.get_executor() } -> std::same_as<net::any_io_executor>;
};

}  // namespace canigo
