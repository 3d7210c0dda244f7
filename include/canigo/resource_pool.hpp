#pragma once

#include "canigo/detail/context/misuse.hpp"
#include "canigo/detail/coro/async_function.hpp"
#include "canigo/detail/pool/pool_options.hpp"
#include "canigo/detail/pool/pool_resources.hpp"
#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/pool_handle.hpp"
#include "canigo/request.hpp"
#include "canigo/retry_policy.hpp"
#include "canigo/task.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

namespace canigo {

/// The first eight options are those of strand_pool_options.
///
/// The functions in these options may be coroutines or plain callables. They run on the strand of the worker that owns
/// the resource.
template <class R>
struct resource_pool_options {
  std::size_t concurrency = 0;  ///< required: number of workers, each with at most one resource; 1 to 100'000
  int priorities = 1;
  std::size_t queue_limit = 10'000;
  overflow on_overflow = overflow::reject_new;
  duration timeout = duration::max();
  retry_policy retry = {};
  restart_policy restart = {};
  pool_observer* observer = nullptr;

  detail::async_function<R()> make = {};  ///< required: makes a worker's resource, before an operation that needs one
  /// called after an operation failed, to make the resource usable again; if it throws, the resource is destroyed
  detail::async_function<void(R&)> reset = {};
  /// called before each use except the first; returns whether the resource is still usable
  detail::async_function<bool(R&)> check = {};
  detail::async_function<void(R&)> destroy = {};  ///< closes the resource; the destructor of R runs in any case
  /// a resource that is unused for this time is destroyed; more than 0; max: never
  duration idle_timeout = duration::max();
  std::size_t min_idle = 0;  ///< this many resources are kept even if they are unused for longer than idle_timeout
  /// The time limit of each call of `make`, `reset`, `check` and `destroy`, if the function is a coroutine. When the
  /// time has passed, the call is cancelled and counts as failed with errc::timed_out. The time limit of a task starts
  /// only when its worker has a resource. More than 0; max: no time limit.
  duration call_timeout = std::chrono::seconds{30};
};

/// A pool of workers that each own a resource, such as a connection.
///
///     canigo::resource_pool<connection> pool{io, {.concurrency = 8, .make = connect}};
///     auto rows = co_await pool.run([](connection& c, canigo::task_context&) -> net::awaitable<result> { … });
///
/// The pool sends operations to the resources, and never lends a resource out. So each operation has exactly one
/// resource. No caller can forget to return a resource, or hold a resource while it waits for a second one.
///
/// A resource counts as broken if `check` returns false, if `reset` throws, or if an operation fails with a fatal
/// exception (restart_policy). Then its worker destroys it and makes a new one. A `make` that fails or exceeds
/// `call_timeout` counts like a broken resource. After too many restarts the pool stops, and closed() throws the
/// exception that caused the last restart.
///
/// The base class pool_handle has the members run(), async_run(), submit(), try_post(), stop() and others. The
/// documentation of pool_handle describes their errors, cancellation, threads and lifetime.
template <class R>
class resource_pool : public pool_handle<R> {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range. The error text names the option
  /// and the range.
  resource_pool(const net::any_io_executor& executor, const resource_pool_options<R>& o)
      : pool_handle<R>{executor, detail::to_core_options(o, "resource_pool"), std::make_unique<resources>(o)} {}
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  resource_pool(ExecutionContext& context, const resource_pool_options<R>& o)
      : resource_pool{net::any_io_executor{context.get_executor()}, o} {}
  /// Rejects options with a wrong field, or with a field of the wrong type, at compile time. The compiler's message
  /// names the right types.
  template <detail::any_context Context>
  resource_pool(const Context&, const detail::misfit_options&)
      : resource_pool{net::any_io_executor{}, resource_pool_options<R>{}} {
    static_assert(!detail::any_context<Context>,
                  "resource_pool: a field is another class's, or has another type: .make returns R or an awaitable of "
                  "it, .timeout is a span such as 2s");
  }
  ~resource_pool() = default;

 private:
  class resources final : public detail::pool_resources {
   public:
    explicit resources(const resource_pool_options<R>& o) : options_(o) {
      if (!o.make) detail::throw_invalid("resource_pool_options.make", "empty", "a function");
      if (o.idle_timeout <= duration::zero()) {
        detail::throw_invalid("resource_pool_options.idle_timeout", o.idle_timeout, "more than 0");
      }
      if (o.call_timeout <= duration::zero()) {
        detail::throw_invalid("resource_pool_options.call_timeout", o.call_timeout, "more than 0");
      }
      has_check = static_cast<bool>(o.check);
      has_reset = static_cast<bool>(o.reset);
      idle_timeout = o.idle_timeout;
      call_timeout = o.call_timeout;
      min_idle = o.min_idle;
    }

    net::awaitable<void*> make() override {
      R made = co_await options_.make();
      co_return new R(std::move(made));
    }
    net::awaitable<bool> check(void* r) override { return options_.check(*static_cast<R*>(r)); }
    net::awaitable<void> reset(void* r) override { return options_.reset(*static_cast<R*>(r)); }
    net::awaitable<void> destroy(void* r) override {
      const std::unique_ptr<R> owned{static_cast<R*>(r)};
      if (options_.destroy) co_await options_.destroy(*owned);
    }
    void discard(void* r) noexcept override { delete static_cast<R*>(r); }

   private:
    resource_pool_options<R> options_;
  };
};

}  // namespace canigo
