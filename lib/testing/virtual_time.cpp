#include "canigo/testing/virtual_time.hpp"

#include "run_clock.hpp"

namespace canigo::testing {

virtual_time::virtual_time(net::io_context& context, time_point start)
    : context_{context}, clock_{context, start}, start_{start} {}

std::size_t virtual_time::poll() {
  context_.restart();
  return context_.poll();
}

std::size_t virtual_time::run() {
  return run_clock(clock_, time_point::max(), [this] { return poll(); });
}

std::size_t virtual_time::run_until(time_point t) {
  const std::size_t handlers = run_clock(clock_, t, [this] { return poll(); });
  clock_.advance(t);
  return handlers + poll();
}

}  // namespace canigo::testing
