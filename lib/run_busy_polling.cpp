#include "canigo/run_busy_polling.hpp"

#include "canigo/detail/context/loop_inbox.hpp"
#include "canigo/detail/time/processor_clock.hpp"
#include "canigo/error.hpp"

#include <thread>

namespace canigo {

namespace {

/// Polls the loop until no handler was ready for the time `longest`, or until the loop was stopped. Returns the number
/// of handlers that ran.
std::size_t poll_until_idle(net::io_context& io, detail::loop_inbox& inbox, duration longest) {
  std::size_t handled = 0;
  time_point idle_since = detail::processor_clock.now();
  while (!io.stopped()) {
    const std::size_t n = io.poll();
    handled += n;
    const time_point now = detail::processor_clock.now();
    if (n > 0) {
      idle_since = now;
    } else if (now - idle_since >= longest) {
      break;
    } else {
      std::this_thread::yield();
    }
    inbox.look_out();
  }
  return handled;
}

}  // namespace

std::size_t run_busy_polling(net::io_context& io, duration longest) {
  if (longest < duration::zero() || longest > std::chrono::seconds{1}) {
    detail::throw_invalid("run_busy_polling.longest", longest, "0s to 1s");
  }
  if (longest == duration::zero()) return io.run();
  detail::loop_inbox& inbox = detail::loop_inbox::of(io);
  std::size_t handled = 0;
  while (!io.stopped()) {
    handled += poll_until_idle(io, inbox, longest);
    handled += io.run_one();
  }
  return handled;
}

}  // namespace canigo
