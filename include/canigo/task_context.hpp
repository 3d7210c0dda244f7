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

/// What a running operation may ask about itself. Valid until it ends.
class task_context {
 public:
  task_context(const task_context&) = delete;
  task_context& operator=(const task_context&) = delete;

  std::uint64_t id() const noexcept;
  /// 1 is the first.
  std::uint32_t attempt() const noexcept;
  /// When this attempt is cancelled; time_point::max() if it may take its time.
  time_point deadline() const noexcept;
  /// Whether it shall end: its time is up, its owner cancelled it, or the pool cancels all. Any thread.
  bool stop_requested() const noexcept;
  /// The strand of its worker, marked as this operation's. What is posted there does not run at the same time as the
  /// operation; a coroutine that is left there when the operation ends is the pool's no more. On the strand.
  const net::any_io_executor& executor() const noexcept;
  /// Which worker, 0 …
  std::size_t worker() const noexcept;

  /// A request that ends when this attempt does: `co_await scheduler.acquire(t.request(1))` does not even start to wait
  /// for what would come too late.
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
