#pragma once

#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <cstdint>

namespace canigo::detail {

class pool_core;
class pool_ref;

const net::any_io_executor& executor_of(const pool_core& core) noexcept;

/// Lets a made waiter wait for a task; one with purpose run hands the task over first. Without memory it fails.
void begin_task_wait(pool_core& core, pool_task& t, pool_waiter& w, bool has_memory) noexcept;

/// Waits, as a coroutine of its own.
net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t);
net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group);
net::awaitable<stop_report> stopped(pool_ref pool);
/// Throws the cause if the pool gave up.
net::awaitable<stop_report> closed(pool_ref pool);

}  // namespace canigo::detail
