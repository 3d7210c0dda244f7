#pragma once

#include "canigo/detail/base/mutex.hpp"
#include "canigo/detail/context/context_service.hpp"
#include "canigo/detail/coro/child.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <asio/error.hpp>
#include <asio/this_coro.hpp>

#include <memory>
#include <utility>

namespace canigo {

/// Cancels operations from any thread: `co_await stop.wrap(op())` runs an operation, and `stop.cancel()` cancels it.
///
/// An Asio cancellation signal may be used only on the executor of its operation. This class posts the cancellation to
/// that executor.
/// Threads: any thread may call any member at any time.
/// Lifetime: if this object is destroyed, wrapped operations continue.
class cancel_source {
 public:
  cancel_source();
  ~cancel_source();
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  /// Runs `op`, and cancels it (terminal) when this source is cancelled.
  ///
  /// If `op` has a result, wrap() returns it, even after a cancellation. If a cancelled `op` throws any exception,
  /// wrap() throws operation_aborted. If the source was cancelled before the call, wrap() throws operation_aborted
  /// without starting `op`. `op` runs on a strand, as in with_timeout.
  /// Errors: operation_aborted; all errors of `op`.
  /// Cancellation: passed on to `op`.
  /// Allocates: the strand, and what co_spawn allocates.
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T> op) {
    return run(registry_, std::move(op));
  }

  /// Cancels all operations that are wrapped now, and all that will be wrapped later. Idempotent. If it throws
  /// std::bad_alloc, call it again.
  void cancel();
  bool cancelled() const noexcept;

 private:
  class registry;
  /// The registration of one wrapped operation with its cancel_source. The destructor ends the registration.
  class registration {
   public:
    registration(std::shared_ptr<registry> r, std::shared_ptr<detail::child> c);
    ~registration();
    registration(const registration&) = delete;
    registration& operator=(const registration&) = delete;

   private:
    friend class registry;
    std::shared_ptr<registry> registry_;
    std::shared_ptr<detail::child> child_;
    detail::context_service* context_;
    registration* previous_ = nullptr;
    registration* next_ = nullptr;
  };

  template <class T>
  static net::awaitable<T> run(std::shared_ptr<registry> r, net::awaitable<T> op) {
    const net::any_io_executor executor = co_await net::this_coro::executor;
    const auto c = std::make_shared<detail::child>(executor);
    const registration known{std::move(r), c};
    co_return co_await detail::run_child(c, std::move(op), net::error::operation_aborted);
  }

  std::shared_ptr<registry> registry_;
};

}  // namespace canigo
