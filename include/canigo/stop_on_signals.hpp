#pragma once

#include "canigo/net.hpp"
#include "canigo/pool.hpp"
#include "canigo/pool_handle.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace canigo {

struct signal_options {
  /// How long running operations may continue after the first signal. Choose less than the time after which the
  /// supervisor of the process kills it: 30 s under Kubernetes, 90 s under systemd.
  duration grace = std::chrono::seconds{10};
};

namespace detail {

/// A type, such as jobs::service, whose objects can be stopped with a stop_mode. stopper() returns the function that
/// stops such an object.
template <class S>
concept stops_by_mode = requires(S& s) {
  { s.stopper() } -> std::same_as<std::function<void(stop_mode, duration)>>;
  { s.closed() } -> std::same_as<net::awaitable<void>>;
};
/// A type such as a policy or a limit: stop() refuses new callers, and does not cancel operations that are already
/// running.
template <class S>
concept stops_at_once = requires(S& s) {
  { s.stop() } noexcept -> std::same_as<void>;
};
/// A type such as a gate: it has close() instead of stop().
template <class S>
concept closes = requires(S& s) {
  s.try_enter();
  { s.close() } -> std::same_as<net::awaitable<void>>;
};

/// How a signal stops an object, and how the watch for signals waits until the object has ended. If `closed` is empty,
/// the watch ends at the first signal. In that case `stop` keeps a reference to the object.
struct signal_target {
  std::function<void(stop_mode, duration)> stop;
  std::optional<net::awaitable<void>> closed;
};

template <class S>
signal_target target_of(S& s) {
  if constexpr (stops_by_mode<S>) {
    return {s.stopper(), s.closed()};
  } else if constexpr (stops_at_once<S>) {
    return {[&s](stop_mode, duration) { s.stop(); }, std::nullopt};
  } else {
    return {[&s](stop_mode, duration) { std::ignore = s.close(); }, std::nullopt};
  }
}

}  // namespace detail

/// Stops an object when the process is told to end. The first SIGINT or SIGTERM stops it with finish_running and a
/// grace time, the second signal with cancel_all.
///
///     canigo::stop_on_signals signals{io, pool, {.grace = 20s}};
///
/// - **A pool or a jobs::service** is stopped with these two modes. The watch ends when the object has stopped, even if
///   a signal was not the reason.
/// - **A policy, any limit or a gate** is stopped at the first signal: it refuses new callers, and running operations
///   continue. No mode can cancel these operations, so the watch ends at that signal.
/// - **A function** that takes a mode and a grace time, and returns an awaitable, is for a program that stops several
///   objects in its own order. The function is called at each of the first two signals. The watch ends when one of the
///   returned awaitables has ended.
///
/// The watch for signals starts in the constructor; the program need not await anything. The watch keeps
/// io_context::run() from returning. The watch ends as described above, or when this object is destroyed. After that
/// the signals have their default action: they end the process. Several stop_on_signals objects may watch the same
/// signals. Each of these objects receives every signal, in no fixed order.
/// Errors: if an awaitable of a function throws, the exception leaves io_context::run().
/// Threads: any, if each thread that runs the context may receive signals.
/// Lifetime: a pool and a service may be destroyed first. All other objects must outlive this one. A function, and
/// everything it refers to, must also outlive its awaitables, and any call of the function that has begun on another
/// thread.
class stop_on_signals {
 public:
  template <class R>
  stop_on_signals(const net::any_io_executor& executor, pool_handle<R>& pool, const signal_options& o = {})
      : stop_on_signals{executor, [p = pool.core()](stop_mode m, duration grace) { p.request_stop(m, grace); },
                        detail::closed(pool.core()), o} {}
  template <class Stopped>
    requires detail::stops_by_mode<Stopped> || detail::stops_at_once<Stopped> || detail::closes<Stopped>
  stop_on_signals(const net::any_io_executor& executor, Stopped& stopped, const signal_options& o = {})
      : stop_on_signals{executor, detail::target_of(stopped), o} {}
  template <class Stop>
    requires std::is_invocable_r_v<net::awaitable<void>, std::decay_t<Stop>&, stop_mode, duration>
  stop_on_signals(const net::any_io_executor& executor, Stop&& stop, const signal_options& o = {})
      : stop_on_signals{executor, function{std::forward<Stop>(stop)}, o} {}
  template <class ExecutionContext, class Stopped>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  stop_on_signals(ExecutionContext& context, Stopped&& stopped, const signal_options& o = {})
      : stop_on_signals{net::any_io_executor{context.get_executor()}, std::forward<Stopped>(stopped), o} {}
  ~stop_on_signals();
  stop_on_signals(const stop_on_signals&) = delete;
  stop_on_signals& operator=(const stop_on_signals&) = delete;

 private:
  class watch;
  using function = std::function<net::awaitable<void>(stop_mode, duration)>;
  stop_on_signals(const net::any_io_executor& executor, std::function<void(stop_mode, duration)> stop,
                  net::awaitable<stop_report> closed, const signal_options& o);
  stop_on_signals(const net::any_io_executor& executor, detail::signal_target target, const signal_options& o);
  stop_on_signals(const net::any_io_executor& executor, function stop, const signal_options& o);

  std::shared_ptr<watch> watch_;
};

}  // namespace canigo
