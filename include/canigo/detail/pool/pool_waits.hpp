#pragma once

#include "canigo/detail/pool/pool_core.hpp"
#include "canigo/detail/pool/pool_waiter.hpp"
#include "canigo/error.hpp"
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

/// Lets a made waiter wait for a task; one with purpose run hands the task over first. Without memory it fails.
inline void begin_task_wait(pool_core& core, pool_task& t, pool_waiter& w, bool has_memory) noexcept {
  if (!has_memory) {
    core.fail(w, static_cast<int>(errc::not_enough_memory));
  } else if (w.is_for(pool_waiter::purpose::run)) {
    core.run(t, w);
  } else {
    core.wait_for(t, w);
  }
}

/// Waits, as a coroutine of its own.
net::awaitable<void> wait_for_task(pool_core& core, pool_waiter::purpose purpose, pool_task& t);
net::awaitable<void> group_ended(pool_ref pool, std::uint64_t group);
net::awaitable<stop_report> stopped(pool_ref pool);
/// Throws the cause if the pool gave up.
net::awaitable<stop_report> closed(pool_ref pool);

}  // namespace canigo::detail
