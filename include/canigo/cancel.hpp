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
/// Asio's cancellation signals may be used from the executor of the operation only; this one brings the cancellation
/// there.
/// Threads: any, all members, at once. Lifetime: may be destroyed while what it wrapped still runs; that then runs on.
class cancel_source {
 public:
  cancel_source();
  ~cancel_source();
  cancel_source(const cancel_source&) = delete;
  cancel_source& operator=(const cancel_source&) = delete;

  /// Runs `op`, and cancels it (terminal) when this source is cancelled.
  ///
  /// The result is that of `op`, also where it comes late. With any exception that `op` ends with once it is cancelled,
  /// whatever it makes of that, this ends with operation_aborted. Once the source is cancelled, `op` is not started at
  /// all. `op` runs on a strand, as in with_timeout.
  /// Cancellation: passed on to `op`. Allocates: the strand, and what co_spawn does.
  template <class T>
  net::awaitable<T> wrap(net::awaitable<T> op) {
    return run(registry_, std::move(op));
  }

  /// Cancels what is wrapped now, and what will be. Idempotent. Where it throws std::bad_alloc, call it again.
  void cancel();
  bool cancelled() const noexcept;

 private:
  class registry;
  /// A wrapped operation, known to the registry from construction to destruction.
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
