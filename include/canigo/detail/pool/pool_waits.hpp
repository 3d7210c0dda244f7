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

/// Starts a waiter for a task. With purpose::run it submits the task first. If `has_memory` is false, the wait fails.
void begin_task_wait(pool_core& core, pool_task& t, pool_waiter& w, bool has_memory) noexcept;

/// Waits for the end of a task. With purpose::run, submits the task first, and cancels it if the wait is cancelled.
/// With purpose::result, a cancelled wait does not cancel the task.
net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t);
net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group);
net::awaitable<stop_report> stopped(pool_ref pool);
/// Waits until the pool has stopped. Throws the cause if the pool stopped by itself.
net::awaitable<stop_report> closed(pool_ref pool);

}  // namespace canigo::detail
