#pragma once

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/net.hpp"
#include "canigo/stop_mode.hpp"

#include <asio/awaitable.hpp>

#include <cstdint>

namespace canigo::detail {

/// Owns one reference to a pool.
class pool_ref {
 public:
  explicit pool_ref(pool_core& c) noexcept : core_{&c} { core_->add_ref(); }
  pool_ref(const pool_ref& other) noexcept : pool_ref{*other.core_} {}
  pool_ref& operator=(const pool_ref&) = delete;
  ~pool_ref() { core_->release_ref(); }
  pool_core& operator*() const noexcept { return *core_; }

 private:
  pool_core* core_;
};

/// Waits, as a coroutine of its own.
net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t);
net::awaitable<void> wait_for_group(pool_core& core, std::uint64_t group);
net::awaitable<void> wait_for_close(pool_core& core);
net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group);
net::awaitable<stop_report> stopped(pool_ref pool);
/// Throws the cause if the pool gave up.
net::awaitable<stop_report> closed(pool_ref pool);

}  // namespace canigo::detail
