#pragma once

#include "canigo/detail/context/suspend.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <cstdint>
#include <memory>

namespace canigo::detail {

class pool_worker;

/// Tells the pool that a worker's coroutine is gone, and gives its reference back.
struct worker_end {
  void operator()(pool_worker* w) const noexcept;
};
using worker_life = std::unique_ptr<pool_worker, worker_end>;

/// A strand for one worker of a pool.
///
/// Its executor keeps no loop running: co_spawn would otherwise keep io_context::run() from returning as long as the
/// worker lives, which is as long as the pool does.
class worker_strand {
 public:
  /// Makes a strand on the context of `base`. `owner` is the worker and `home` its pool; see mark_of.
  static std::unique_ptr<worker_strand> make(const net::any_io_executor& base, const void* owner, const void* home);
  virtual ~worker_strand() = default;

  /// The executor of a strand without a worker: for a coroutine that must not be lost if a post finds no memory.
  static net::any_io_executor of_no_worker(const net::any_io_executor& base);
  /// Whether `executor` is that of a worker, or of a strand without a worker.
  static bool is_one(const net::any_io_executor& executor) noexcept;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// executor(), marked as that of an operation, until the next call. The mark is not 0. Call it on the strand.
  virtual const net::any_io_executor& executor_for(std::uint32_t operation) noexcept = 0;
  /// From here on copies of the worker's own executor are marked as that of an operation, which runs in the worker's
  /// coroutine: this_coro::executor gives it such a copy. On the strand.
  virtual void begins(std::uint32_t operation) noexcept = 0;
  /// Posts the resumption of `s`. If that throws, nothing has happened to `s`.
  virtual void post(suspended& s) const = 0;
  /// Like post(), but at once if nothing runs on the strand and the caller runs in its context.
  virtual void dispatch(suspended& s) const = 0;
  /// Runs the worker's coroutine; the worker has none yet. `until_it_goes` ends with it, or with an exception of this.
  virtual void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot, worker_life until_it_goes) const = 0;

  /// The worker to whose strand an executor belongs, also below another strand, and the number of its operation; 0:
  /// none.
  struct mark {
    const void* owner =
        nullptr;  // null: no such executor, or the worker is gone; it may go unless `home` is known to stay
    const void* home = nullptr;
    std::uint32_t operation = 0;
  };
  static mark mark_of(const net::any_io_executor& executor) noexcept;
};

}  // namespace canigo::detail
