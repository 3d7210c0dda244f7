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

/// Cancels work from any thread: `co_await stop.wrap(op())` here, `stop.cancel()` there.
///
/// Asio's cancellation signals may be used only on the executor of the operation. This class posts the cancellation to
/// that executor.
/// Threads: any, all members, at once.
/// Lifetime: a wrapped operation goes on when this object is destroyed.
class cancel_source {
 public:
  cancel_source();
  ~cancel_source();
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  /// Runs `op`, and cancels it (terminal) when this source is cancelled.
  ///
  /// If `op` has a result, wrap() returns it, even after a cancellation. If a cancelled `op` ends with an exception,
  /// of any type, wrap() throws operation_aborted. If the source was cancelled before, wrap() throws that without
  /// starting `op`. `op` runs on a strand, as in with_timeout.
  /// Errors: operation_aborted; all of `op`.
  /// Cancellation: passed on to `op`.
  /// Allocates: the strand, and what co_spawn allocates.
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T> op) {
    return run(registry_, std::move(op));
  }

  /// Cancels all operations that are wrapped now, and all that will be. Idempotent. If it throws std::bad_alloc, call
  /// it again.
  void cancel();
  bool cancelled() const noexcept;

 private:
  class registry;
  /// A wrapped operation. The registry knows it from construction to destruction.
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
