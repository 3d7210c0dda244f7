#include "canigo/testing/virtual_time.hpp"

namespace canigo::testing {

virtual_time::virtual_time(net::io_context& context, time_point start)
    : context_{context}, clock_{context, start}, start_{start} {}

std::size_t virtual_time::poll() {
  context_.restart();
  return context_.poll();
}

std::size_t virtual_time::run() {
  std::size_t handlers = poll();
  for (time_point next = clock_.next(); next != time_point::max(); next = clock_.next()) {
    clock_.advance(next);
    handlers += poll();
  }
  return handlers;
}

std::size_t virtual_time::run_until(time_point t) {
  std::size_t handlers = poll();
  for (time_point next = clock_.next(); next <= t && next != time_point::max(); next = clock_.next()) {
    clock_.advance(next);
    handlers += poll();
  }
  clock_.advance(t);
  return handlers + poll();
}

}  // namespace canigo::testing
