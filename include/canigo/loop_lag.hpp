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
  duration interval = std::chrono::milliseconds{100};  ///< between two measurements; 1ms or more
  duration threshold = std::chrono::milliseconds{50};  ///< a loop that is as late as this is overloaded; 1ns or more
  /// Called with the measured lag when the loop becomes overloaded, and when it is no longer overloaded. On the
  /// executor, with no lock held. It may destroy the loop_lag.
  std::function<void(bool overloaded, duration lag)> on_change = {};
};

struct loop_lag_stats {
  wait_histogram lag;           ///< the lag of all measurements
  duration last{0};             ///< the lag now: the last measurement, or more if the next one is late already
  std::uint64_t overloads = 0;  ///< how often the lag rose to the threshold
  bool overloaded = false;      ///< the lag is at the threshold or above
};

/// Measures how late an event loop is: the time from the instant at which a handler is due to the moment it runs.
///
/// Each `interval` a deadline posts a handler to the executor, which notes how late it is. A lag says that the loop has
/// more to do than it can, or that a handler blocks. So it is a measure of the process's own overload, for shedding
/// load and for a health check.
///
/// It costs one deadline of the context's timer and one post per interval. It keeps io_context::run() from returning
/// until stop() or the destructor, as any timer does.
///
/// Threads: any, all members, at once. Allocates: in the constructor.
/// Lifetime: may be destroyed on any thread, also in its own callback. The execution context may be destroyed first.
class loop_lag {
 public:
  /// Throws std::system_error, errc::invalid_argument, naming the field, the value and the range.
  explicit loop_lag(const net::any_io_executor& executor, loop_lag_options options = {});
  template <class ExecutionContext>
    requires requires(ExecutionContext& c) { c.get_executor(); }
  explicit loop_lag(ExecutionContext& context, loop_lag_options options = {})
      : loop_lag{net::any_io_executor{context.get_executor()}, std::move(options)} {}
  ~loop_lag();
  loop_lag(const loop_lag&) = delete;
  loop_lag& operator=(const loop_lag&) = delete;

  /// Whether the lag is at the threshold or above. Also while a handler blocks the loop, seen from another thread.
  bool is_overloaded() const noexcept;
  loop_lag_stats stats() const noexcept;

  /// Ends the measurements. Idempotent.
  void stop() noexcept;

 private:
  detail::lag_probe* probe_;
};

}  // namespace canigo
