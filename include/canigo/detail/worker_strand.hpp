#pragma once

#include "canigo/detail/suspend.hpp"
#include "canigo/net.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/cancellation_signal.hpp>

#include <memory>

namespace canigo::detail {

/// A strand for one worker of a pool.
///
/// Its executor keeps no loop running: co_spawn would otherwise keep io_context::run() from returning as long as the
/// worker lives, which is as long as the pool does.
class worker_strand {
 public:
  /// On the context of `base`. `owner` marks all executors of one pool; see owner_of.
  static std::unique_ptr<worker_strand> make(const net::any_io_executor& base, const void* owner);
  virtual ~worker_strand() = default;

  virtual const net::any_io_executor& executor() const noexcept = 0;
  /// Posts the resumption of `s`. Where that throws, nothing has happened to `s`.
  virtual void post(suspended& s) const = 0;
  /// The same, but at once if nothing runs on the strand and the caller runs in its context.
  virtual void dispatch(suspended& s) const = 0;
  virtual void spawn(net::awaitable<void> coroutine, net::cancellation_slot slot) const = 0;

  /// The owner of the worker's strand that `executor` is, or is a strand on; null if it is no such thing.
  static const void* owner_of(const net::any_io_executor& executor) noexcept;
};

}  // namespace canigo::detail
