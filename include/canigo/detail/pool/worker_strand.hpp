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

/// Tells the pool that a worker's coroutine has ended, and releases the coroutine's reference to the pool.
struct worker_end {
  void operator()(pool_worker* w) const noexcept;
};
using worker_life = std::unique_ptr<pool_worker, worker_end>;

/// A strand for one worker of a pool.
///
/// Its executor does not keep the loop running. Otherwise co_spawn would keep io_context::run() from returning as long
/// as the worker lives, which is as long as the pool lives.
class worker_strand {
 public:
  /// Makes a strand on the context of `base`. `owner` is the worker and `home` its pool; see mark_of.
  static std::unique_ptr<worker_strand> make(const net::any_io_executor& base, const void* owner, const void* home);
  virtual ~worker_strand() = default;

  /// The executor of a strand without a worker, for a coroutine that must not be lost if there is no memory for a post.
  static net::any_io_executor of_no_worker(const net::any_io_executor& base);
  /// Whether `executor` is that of a worker_strand, with or without a worker.
  static bool is_one(const net::any_io_executor& executor) noexcept;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// executor() with the mark of an operation, valid until the next call. The mark must not be 0. Call it on the
  /// strand.
  virtual const net::any_io_executor& executor_for(std::uint32_t operation) noexcept = 0;
  /// From now on, copies of the worker's own executor have the mark of an operation that runs in the worker's
  /// coroutine; this_coro::executor returns such a copy. Call it on the strand.
  virtual void begins(std::uint32_t operation) noexcept = 0;
  /// Posts the resumption of `s`. If that throws, `s` is unchanged.
  virtual void post(suspended& s) const = 0;
  /// Like post(), but resumes `s` immediately if the strand is free and the calling thread runs its context.
  virtual void dispatch(suspended& s) const = 0;
  /// Starts the worker's coroutine. Precondition: the worker has none. `until_it_goes` is destroyed when the coroutine
  /// ends, or if spawn() throws.
  virtual void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot, worker_life until_it_goes) const = 0;

  /// The worker to whose strand an executor belongs, even below another strand, and the number of its operation; 0:
  /// none.
  struct mark {
    const void* owner =
        // the worker, valid while `home` lives; null: the executor belongs to no worker, or the worker is destroyed
        nullptr;
    const void* home = nullptr;
    std::uint32_t operation = 0;
  };
  static mark mark_of(const net::any_io_executor& executor) noexcept;
};

}  // namespace canigo::detail
