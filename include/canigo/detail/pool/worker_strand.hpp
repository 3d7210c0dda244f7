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
/// Its executor does not keep the loop running. Otherwise co_spawn would keep io_context::run() from returning until
/// the pool, and with it the worker, is destroyed.
class worker_strand {
 public:
  /// Makes a strand on the context of `base`. `owner` is the worker and `home` its pool; see mark_of.
  static std::unique_ptr<worker_strand> make(const net::any_io_executor& base, const void* owner, const void* home);
  virtual ~worker_strand() = default;

  /// Returns the executor of a new strand that belongs to no worker. Use it for a coroutine that must not be lost. The
  /// executor reserves memory before each post, so a lack of memory can't stall the strand.
  static net::any_io_executor of_no_worker(const net::any_io_executor& base);
  /// Whether `executor` belongs to a worker_strand, or was returned by of_no_worker().
  static bool is_one(const net::any_io_executor& executor) noexcept;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// Returns an executor like executor() that also stores `operation`, the number of an operation of the worker. The
  /// number is not 0. The reference is valid until the next call of this function. Call it on the strand.
  virtual const net::any_io_executor& executor_for(std::uint32_t operation) noexcept = 0;
  /// Call it on the strand when an operation begins in the worker's coroutine. `operation` is the operation's number.
  /// From now on, each new copy of the worker's executor, such as the result of this_coro::executor, stores this
  /// number.
  virtual void begins(std::uint32_t operation) noexcept = 0;
  /// Posts the resumption of `s`. If that throws, `s` is unchanged.
  virtual void post(suspended& s) const = 0;
  /// Like post(), but resumes `s` immediately if the strand is free and the calling thread runs its context.
  virtual void dispatch(suspended& s) const = 0;
  /// Starts the worker's coroutine. Precondition: the worker has none. `until_it_goes` is destroyed when the coroutine
  /// ends, or if spawn() throws.
  virtual void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot, worker_life until_it_goes) const = 0;

  /// Tells to which worker and to which of its operations an executor belongs. The executor may also be a strand on top
  /// of the worker's strand. `operation` is 0 for an executor without an operation.
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
