#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace canigo {

namespace detail {
class lag_probe;
}  // namespace detail

struct loop_lag_options {
  duration interval = std::chrono::milliseconds{100};  ///< time between two measurements; 1ms or more
  duration threshold = std::chrono::milliseconds{50};  ///< the loop counts as overloaded from this lag on; 1ns or more
  /// Called with the measured lag when the loop becomes overloaded, and when it is no longer overloaded. The function
  /// runs on the executor, with no lock held, and may destroy the loop_lag.
  std::function<void(bool overloaded, duration lag)> on_change = {};
};

struct loop_lag_stats {
  wait_histogram lag;           ///< a histogram of the lag, over all measurements
  duration last{0};             ///< the last measured lag or, if longer, the delay so far of the pending measurement
  std::uint64_t overloads = 0;  ///< how often the lag rose to the threshold
  bool overloaded = false;      ///< whether the lag is at least the threshold
};

/// Measures the lag of an event loop: the time from the instant at which a handler is due to the instant at which it
/// runs.
///
/// In each `interval` a deadline posts a handler to the executor, and the handler measures its lag. A lag means that
/// the loop has too much work, or that a handler blocks it. So the lag measures the overload of the process itself, for
/// load shedding and health checks.
///
/// It costs one deadline of the context's timer and one post per interval. As any timer does, it keeps
/// io_context::run() from returning until stop() or the destructor.
///
/// Threads: any thread may call any member at any time. Allocates: in the constructor.
/// Lifetime: it may be destroyed on any thread, and in its own callback. The execution context may be destroyed first.
class loop_lag {
 public:
  /// Throws std::system_error (errc::invalid_argument) if an option is out of range; the text names it and the range.
  explicit loop_lag(const net::any_io_executor& executor, loop_lag_options options = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit loop_lag(ExecutionContext& context, loop_lag_options options = {})
      : loop_lag{net::any_io_executor{context.get_executor()}, std::move(options)} {}
  ~loop_lag();
  loop_lag(const loop_lag&) = delete;
  loop_lag& operator=(const loop_lag&) = delete;

  /// Whether the lag is at least the threshold. Another thread can call it to detect that a handler blocks the loop.
  bool is_overloaded() const noexcept;
  loop_lag_stats stats() const noexcept;

  /// Stops the measurements. Idempotent.
  void stop() noexcept;

 private:
  detail::lag_probe* probe_;
};

}  // namespace canigo
