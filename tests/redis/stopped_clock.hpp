#pragma once

#include "canigo/time_source.hpp"

#include "redis/member.hpp"
#include "redis/server.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>

namespace redis_test {

/// A loop on which time goes on only where it is told to, and not before the server has answered, if there is one.
/// So no limit in a test depends on how fast the machine is.
struct stopped_clock {
  stopped_clock() = default;
  explicit stopped_clock(const redis_server& server) : server_{&server} {}

  drained io;
  canigo::time_source_control clock{io, {}};

  void advance(canigo::duration d) { clock.advance(clock.now() + d); }
  /// Time goes on, without hurry, until it is so. The loop ends whenever there is only time to wait for.
  template <class Done>
  void pass_until(Done done) {
    const auto give_up = steady::now() + std::chrono::seconds{60};
    while (!done() && steady::now() < give_up) {
      settle();
      if (!done() && io.run_one_for(longest_answer()) == 0) advance(step);
    }
    REQUIRE(done());
  }
  /// So much of it passes, and what is to be done meanwhile is done.
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
  /// Everything is done that needs no time.
  void settle() {
    do {
      io.restart();
      while (io.poll_one() != 0) {
      }
    } while (server_ != nullptr && server_->has_answered() && io.poll_one() != 0);
  }

  /// Where nothing tells whether an answer is under way, there is real time for it.
  std::chrono::milliseconds longest_answer() const { return server_ != nullptr ? std::chrono::milliseconds{} : step; }

  const redis_server* server_ = nullptr;
  static constexpr std::chrono::milliseconds step{5};
};

}  // namespace redis_test
