#pragma once

#include "canigo/time_source.hpp"

#include "redis/member.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>

namespace redis_test {

/// A loop on which time goes on only where it is told to.
struct stopped_clock {
  drained io;
  canigo::time_source_control clock{io, {}};

  void advance(canigo::duration d) { clock.advance(clock.now() + d); }
  /// Time goes on, without hurry, until it is so. The loop ends whenever there is only time to wait for.
  template <class Done>
  void pass_until(Done done) {
    const auto give_up = steady::now() + std::chrono::seconds{60};
    while (!done() && steady::now() < give_up) {
      io.restart();
      if (io.run_one_for(step) == 0) advance(step);
    }
    REQUIRE(done());
  }
  /// So much of it passes, and what is to be done meanwhile is done.
  void pass(canigo::duration d) {
    for (const auto end = clock.now() + d; clock.now() < end;) {
      io.restart();
      while (io.poll_one() != 0) {
      }
      advance(std::min<canigo::duration>(10 * step, end - clock.now()));
    }
    io.restart();
    while (io.run_one_for(step) != 0) {
    }
  }

 private:
  static constexpr std::chrono::milliseconds step{5};
};

}  // namespace redis_test
