#pragma once

#include "canigo/time.hpp"
#include "canigo/time_source.hpp"

#include <cstddef>

namespace canigo::testing {

/// Moves the clock to each deadline in turn, up to and including `last`. Calls `poll` before the first move and after
/// each move. `poll` returns how many handlers it has run, and run_clock() returns the sum of these numbers.
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
