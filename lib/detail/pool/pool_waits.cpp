#include "canigo/detail/pool/pool_waits.hpp"

#include "canigo/detail/context/initiation.hpp"
#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_ref.hpp"
#include "canigo/error.hpp"

#include <asio/this_coro.hpp>

#include <exception>
#include <type_traits>
#include <utility>

namespace canigo::detail {

namespace {

/// Suspends the calling coroutine until its wait in the pool has ended. Calls `begin` with a waiter for `purpose`;
/// `begin` must start the wait.
template <class Begin>
net::awaitable<void> wait_in(pool_core& core, pool_waiter::purpose purpose, Begin begin) {
  const net::any_io_executor executor = co_await net::this_coro::executor;
  frame_room<320> room;
  co_await park<std::error_code>([&](auto&& handler) noexcept {
    const auto start = [&](parked_waiter& w, bool has_memory) {
      w.comes_from_coroutine(executor);
      if (has_memory) {
        begin(w);
      } else {
        core.fail(w, static_cast<int>(errc::not_enough_memory));
      }
    };
    initiate_in<parked_waiter>(room, std::forward<decltype(handler)>(handler), start, core, purpose,
                               same_executor(core.executor(), executor));
  });
}

net::awaitable<void> wait_for_close(pool_core& core) {
  return wait_in(core, pool_waiter::purpose::closed, [&core](pool_waiter& w) { core.wait_closed(w); });
}

}  // namespace

const net::any_io_executor& executor_of(const pool_core& core) noexcept { return core.executor(); }

void begin_task_wait(pool_core& core, pool_task& t, pool_waiter& w, bool has_memory) noexcept {
  if (!has_memory) {
    core.fail(w, static_cast<int>(errc::not_enough_memory));
  } else if (w.is_for(pool_waiter::purpose::run)) {
    core.run(t, w);
  } else {
    core.wait_for(t, w);
  }
}

net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t) {
  return wait_in(core, purpose, [&core, &t](pool_waiter& w) { begin_task_wait(core, t, w, true); });
}

net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group) {
  pool_core& core = *pool;
  co_await wait_in(core, pool_waiter::purpose::group, [&core, group](pool_waiter& w) { core.wait_group(group, w); });
}

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
