#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <cstddef>

namespace canigo::testing {

/// Calls `poll`, and moves the clock to each deadline up to and including `last`. `poll` returns how many handlers it
/// has run. This function returns the sum.
template <class Poll>
std::size_t run_clock(time_source_control& clock, time_point last, Poll poll) {
  std::size_t handlers = poll();
  for (time_point next = clock.next(); next <= last && next != time_point::max(); next = clock.next()) {
    clock.advance(next);
    handlers += poll();
  }
  return handlers;
}

}  // namespace canigo::testing
