#pragma once

#include "canigo/time_source.hpp"

#include "redis/member.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>

namespace redis_test {

/// A loop whose time advances only when a test says so, and not before the server, if there is one, has answered. So no
/// time limit in a test depends on the speed of the machine.
struct stopped_clock {
  stopped_clock() = default;
  explicit stopped_clock(const redis_server& server) : server_{&server} {}

  drained io;
  canigo::time_source_control clock{io, {}};

  void advance(canigo::duration d) { clock.advance(clock.now() + d); }
  /// Advances the time in small steps until `done()` is true. The loop returns whenever it only waits for time.
  template <class Done>
  void pass_until(Done done) {
    const auto give_up = steady::now() + std::chrono::seconds{60};
    while (!done() && steady::now() < give_up) {
      settle();
      if (!done() && io.run_one_for(longest_answer()) == 0) advance(step);
    }
    REQUIRE(done());
  }
  /// Advances the time by `d`, and runs what becomes due.
  void pass(canigo::duration d) {
    for (const auto end = clock.now() + d; clock.now() < end;) {
      settle();
      advance(std::min<canigo::duration>(10 * step, end - clock.now()));
    }
    settle();
    while (io.run_one_for(longest_answer()) != 0) {
    }
  }

 private:
  /// Runs everything that needs no time.
  void settle() {
    do {
      io.restart();
      while (io.poll_one() != 0) {
      }
    } while (server_ != nullptr && server_->has_answered() && io.poll_one() != 0);
  }

  /// If nothing tells whether an answer is in transit, waits for it in real time.
  std::chrono::milliseconds longest_answer() const { return server_ != nullptr ? std::chrono::milliseconds{} : step; }

  const redis_server* server_ = nullptr;
  static constexpr std::chrono::milliseconds step{5};
};

}  // namespace redis_test
