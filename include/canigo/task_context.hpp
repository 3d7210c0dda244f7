#pragma once

#include "canigo/net.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <cstddef>
#include <cstdint>

namespace canigo {

namespace detail {
class pool_core;
class pool_worker;
}  // namespace detail

/// Lets a running operation ask about itself. Valid until the operation ends.
class task_context {
 public:
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  std::uint64_t id() const noexcept;
  /// The number of this attempt; the first one is 1.
  std::uint32_t attempt() const noexcept;
  /// When this attempt is cancelled; time_point::max() if it has no time limit.
  time_point deadline() const noexcept;
  /// Whether the operation should end: its time is over, its owner cancelled it, or the pool cancels everything. It
  /// looks at the clock itself, so it is right also where operations occupy all threads. May be called on any thread.
  bool stop_requested() const noexcept;
  /// The strand of the worker. A handler that is posted there never runs at the same time as the operation. The pool
  /// counts a coroutine there as part of this operation until the operation ends, and no longer. Call this on the
  /// strand.
  const net::any_io_executor& executor() const noexcept;
  /// The index of the worker, from 0.
  std::size_t worker() const noexcept;

  /// A request with the deadline of this attempt. If the grant would come too late,
  /// `co_await scheduler.acquire(t.request(1))` fails at once.
  canigo::request request(int priority = 0, std::uint64_t tokens = 1) const noexcept {
    return {.priority = priority, .tokens = tokens, .deadline = deadline()};
  }

 private:
  friend class detail::pool_core;
  friend class detail::pool_worker;
  template <class R>
  friend R& resource_of(task_context&) noexcept;
  explicit task_context(detail::pool_worker& w) noexcept : worker_{&w} {}
  void* resource() const noexcept;

  detail::pool_worker* worker_;
};

}  // namespace canigo
