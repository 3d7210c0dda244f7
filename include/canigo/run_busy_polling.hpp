#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>

namespace canigo {

/// Runs a loop as io.run() does, but polls for up to `longest` before the thread sleeps. Returns the number of executed
/// handlers.
///
///     std::thread other{[&] { canigo::run_busy_polling(second, 50us); }};
///     canigo::run_busy_polling(first, 50us);
///
/// Use it if several loops, each with its own core, share a limit that is always full. A permit that is given back
/// wakes the loop of the next waiter, and waking a thread takes about 40 us. A polling loop is already awake. The price
/// is processor time: an idle thread polls for `longest` each time before it sleeps.
///
/// longest: 0s to 1s; 0s behaves like io.run().
/// Errors: std::system_error (errc::invalid_argument) if `longest` is out of range. An exception of a handler leaves
/// this function, as it leaves io.run(): call it again to continue.
/// Threads: any number of threads may run the same loop. io.stop() ends all of them.
/// Allocates: once for each loop, at the first call; std::bad_alloc if there is no memory for that.
std::size_t run_busy_polling(net::io_context& io, duration longest = std::chrono::microseconds{50});

}  // namespace canigo
