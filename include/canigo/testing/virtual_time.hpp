#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/io_context.hpp>

#include <cstddef>

namespace canigo::testing {

/// Time that passes only when the test says so: hours in microseconds, in the same order every time.
///
/// Make one before the first canigo object on the io_context. Everything of canigo that waits on this context then
/// waits in virtual time; Asio's own timers and sockets do not. Code that needs the time asks its executor's time
/// source, time_source::of(executor).now(). A deadline that is computed from steady_clock lies far in the future.
///
///     net::io_context io;
///     testing::virtual_time time{io};
///     net::co_spawn(io, code_under_test(), rethrow);  // net::detached would drop what it throws
///     time.run_for(1h);
///
/// Threads: the one that runs the io_context through this.
class virtual_time {
 public:
  /// Throws std::system_error, errc::invalid_argument, if the time of `context` is in use already.
  explicit virtual_time(net::io_context& context, time_point start = time_point{});
  virtual_time(const virtual_time&) = delete;
  virtual_time& operator=(const virtual_time&) = delete;

  time_point now() const noexcept { return clock_.now(); }
  duration elapsed() const noexcept { return now() - start_; }

  /// Runs handlers, and moves the time to the next deadline when none is ready. Returns the number of handlers that
  /// ran, once no handler is ready and no deadline is left. Exceptions of a handler come out here.
  std::size_t run();
  /// Like run(), up to and including `t`. Then the time is `t`.
  std::size_t run_until(time_point t);
  std::size_t run_for(duration d) { return run_until(saturating_add(now(), d)); }
  /// Runs the handlers that are ready, and those that they make ready. The time stands still.
  std::size_t poll();

 private:
  net::io_context& context_;
  time_source_control clock_;
  time_point start_;
};

}  // namespace canigo::testing
