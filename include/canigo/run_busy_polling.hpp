#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/io_context.hpp>

#include <chrono>
#include <cstddef>

namespace canigo {

/// Runs a loop as io.run() does, and polls for up to `longest` before it sleeps. Returns how many handlers ran.
///
///     std::thread other{[&] { canigo::run_busy_polling(second, 50us); }};
///     canigo::run_busy_polling(first, 50us);
///
/// Use it if several loops, each with a core of its own, share a limit that is always full. A permit that is given back
/// wakes the loop of the next waiter, and a thread takes some 40 us to wake. A loop that polls is awake already. The
/// price is the processor: an idle thread takes `longest` of it each time before it sleeps.
///
/// longest: 0s to 1s; 0s is io.run().
/// Errors: std::system_error with errc::invalid_argument for another `longest`. An exception of a handler
/// comes out, as from io.run(): call this again to go on.
/// Threads: any number may run the same loop. io.stop() ends all of them.
/// Allocation: once for each loop, at the first call; std::bad_alloc if there is no memory for that.
std::size_t run_busy_polling(net::io_context& io, duration longest = std::chrono::microseconds{50});

}  // namespace canigo
