#pragma once

#include "canigo/net.hpp"
#include "canigo/pool_handle.hpp"
#include "canigo/stop_mode.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace canigo {

struct signal_options {
  /// How long running operations may take after the first signal. Choose less than the supervisor of the process waits
  /// before it kills: 30 s under Kubernetes, 90 s under systemd.
  duration grace = std::chrono::seconds{10};
};

/// Stops a pool when the process is told to end. The first SIGINT or SIGTERM stops it with finish_running and a grace,
/// the second one with cancel_all.
///
///     canigo::stop_on_signals signals{io, pool, {.grace = 20s}};
///
/// It waits from its construction on, and there is nothing to co_await. The wait keeps io_context::run() from
/// returning. It ends when the pool has stopped, for any reason, or when this object is destroyed. Then the signals do
/// what they did before.
/// Threads: any, if each thread that runs the context may receive signals.
/// Lifetime: the pool may be destroyed first.
class stop_on_signals {
 public:
  template <class R>
  stop_on_signals(const net::any_io_executor& executor, pool_handle<R>& pool, const signal_options& o = {})
      : stop_on_signals{executor, [p = pool.core()](stop_mode m, duration grace) { p.request_stop(m, grace); },
                        detail::closed(pool.core()), o} {}
  template <class ExecutionContext, class R>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  stop_on_signals(ExecutionContext& context, pool_handle<R>& pool, const signal_options& o = {})
      : stop_on_signals{net::any_io_executor{context.get_executor()}, pool, o} {}
  ~stop_on_signals();
  stop_on_signals(const stop_on_signals&) = delete;
  stop_on_signals& operator=(const stop_on_signals&) = delete;

 private:
  class watch;
  stop_on_signals(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop,
                  net::awaitable<stop_report> closed, const signal_options& o);

  std::shared_ptr<watch> watch_;
};

}  // namespace canigo
