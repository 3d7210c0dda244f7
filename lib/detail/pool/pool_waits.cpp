#include "canigo/detail/pool/pool_waits.hpp"

#include "canigo/detail/context/suspend.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

namespace {

using room = frame_room<320>;

/// Parks the calling coroutine as a waiter, and lets `start` have it.
template <class Start>
auto park_waiter(pool_core& core, const net::any_io_executor& executor, room& r, pool_waiter::purpose p, Start start) {
  return park<std::error_code>([&core, &executor, &r, p, start](auto&& handler) noexcept {
    std::decay_t<decltype(handler)> h(std::forward<decltype(handler)>(handler));
    auto* w = make_suspended_in<parked_waiter>(r, h, core, p, same_executor(core.executor(), executor));
    w->comes_from_coroutine(executor);
    try {
      w->allow_cancel();
    } catch (...) {
      core.fail(*w, static_cast<int>(errc::not_enough_memory));
      return;
    }
    start(*w);
  });
}

}  // namespace

net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  room r;
  co_await park_waiter(core, executor, r, purpose, [&core, &t, purpose](pool_waiter& w) {
    if (purpose == pool_waiter::purpose::run) {
      core.run(t, w);
    } else {
      core.wait_for(t, w);
    }
  });
}

net::awaitable<void> wait_for_group(pool_core& core, std::uint64_t group) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  room r;
  co_await park_waiter(core, executor, r, pool_waiter::purpose::group,
                       [&core, group](pool_waiter& w) { core.wait_group(group, w); });
}

net::awaitable<void> wait_for_close(pool_core& core) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  room r;
  co_await park_waiter(core, executor, r, pool_waiter::purpose::closed,
                       [&core](pool_waiter& w) { core.wait_closed(w); });
}

net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group) { co_await wait_for_group(*pool, group); }

net::awaitable<stop_report> stopped(pool_ref pool) {
  co_await wait_for_close(*pool);
  co_return (*pool).report();
}

net::awaitable<stop_report> closed(pool_ref pool) {
  co_await wait_for_close(*pool);
  stop_report report = (*pool).report();
  if (report.cause) std::rethrow_exception(report.cause);
  co_return report;
}

}  // namespace canigo::detail
