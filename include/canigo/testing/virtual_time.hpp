#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <asio/io_context.hpp>

#include <cstddef>

namespace canigo::testing {

/// A clock that moves only when the test moves it. So hours pass in microseconds, and events come in the same order in
/// every run.
///
/// Make this object before the first canigo object on the io_context. Then all waits of canigo on this context take
/// virtual time; Asio's own timers and sockets do not. Code that needs the time must use
/// time_source::of(executor).now(). A deadline that is computed from steady_clock::now() is far in the virtual future.
///
///     net::io_context io;
///     testing::virtual_time time{io};
///     net::co_spawn(io, code_under_test(), rethrow);  // net::detached would drop what it throws
///     time.run_for(1h);
///
/// Threads: only the thread that runs the io_context through this object.
class virtual_time {
 public:
  /// Throws std::system_error (errc::invalid_argument) if the time source of `context` was already used.
  explicit virtual_time(net::io_context& context, time_point start = time_point{});
  virtual_time(const virtual_time&) = delete;
  virtual_time& operator=(const virtual_time&) = delete;

  time_point now() const noexcept { return clock_.now(); }
  duration elapsed() const noexcept { return now() - start_; }

  /// Executes all handlers. When no handler is ready, moves the time to the next deadline. Ends when no handler and no
  /// deadline is left. Returns the number of executed handlers. Throws the exception of a handler.
  std::size_t run();
  /// Like run(), but stops after the handlers that are due at `t` or earlier. Afterwards the time is `t`.
  std::size_t run_until(time_point t);
  std::size_t run_for(duration d) { return run_until(saturating_add(now(), d)); }
  /// Executes all ready handlers, and those that become ready meanwhile. The time stands still.
  std::size_t poll();

 private:
  net::io_context& context_;
  time_source_control clock_;
  time_point start_;
};

}  // namespace canigo::testing
