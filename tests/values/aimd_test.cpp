#include "canigo/algorithms/aimd.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>

using namespace std::chrono_literals;
using namespace canigo;

namespace aimd_tests {

struct bench {
  explicit bench(limit_bounds b = {}) : a{{.target = 50ms}, b} {}

  void calls(int n, duration latency, sample_outcome how = sample_outcome::ok) {
    for (int i = 0; i < n; ++i) {
      now += 1ms;
      a.record({latency, in_flight == 0 ? a.limit() : in_flight, how}, now);
    }
  }
  limit_decision decide(duration latency, sample_outcome how = sample_outcome::ok) {
    const time_point before = a.last_decision().at;
    for (int i = 0; i < 100'000 && a.last_decision().at == before; ++i) calls(1, latency, how);
    return a.last_decision();
  }

  aimd_control a;
  time_point now{};
  std::uint64_t in_flight = 0;
};

}  // namespace aimd_tests

TEST_CASE("aimd grows by steps while the latency is below its target, and shrinks by shares above", "[aimd]") {
  aimd_tests::bench b;
  CHECK(b.a.baseline() == 50ms);
  CHECK(b.decide(40ms).why == limit_reason::fast);
  CHECK(b.a.limit() == 22);
  for (int i = 0; i < 20; ++i) b.decide(40ms);
  const auto high = b.a.limit();
  CHECK(high > 60);
  CHECK(b.decide(60ms).why == limit_reason::slow);
  CHECK(b.a.limit() < high);
  CHECK(b.a.limit() > high * 3 / 4);
  const auto before = b.a.limit();
  b.decide(500ms);  // far above
  CHECK(b.a.limit() <= before / 2 + 1);
  CHECK(b.a.limit() >= before / 2 - 1);
  CHECK(b.a.latency() > 450ms);
}

TEST_CASE("aimd shrinks by drops, and does not grow where nobody needs it", "[aimd]") {
  aimd_tests::bench b;
  CHECK(b.decide(1ms, sample_outcome::dropped).why == limit_reason::dropped);
  CHECK(b.a.limit() == 18);
  b.in_flight = 17;
  CHECK(b.decide(40ms).why == limit_reason::steady);
  CHECK(b.a.limit() == 18);
  b.in_flight = 3;
  CHECK(b.decide(40ms).why == limit_reason::unused);
  CHECK(b.a.limit() == 18);
}

TEST_CASE("aimd counts a cancelled call that was older than the target", "[aimd]") {
  aimd_tests::bench b;
  b.calls(1000, 50ms, sample_outcome::cancelled);
  CHECK(b.a.last_decision().why == limit_reason::none);
  CHECK(b.decide(51ms + 20ms, sample_outcome::cancelled).why == limit_reason::slow);
}

TEST_CASE("aimd stays in its bounds", "[aimd]") {
  aimd_tests::bench b{{.initial = 5, .least = 4, .most = 7}};
  for (int i = 0; i < 10; ++i) b.decide(1ms);
  CHECK(b.a.limit() == 7);
  for (int i = 0; i < 20; ++i) b.decide(1s);
  CHECK(b.a.limit() == 4);
}

TEST_CASE("after aimd's limit fell, calls from before say nothing", "[aimd]") {
  aimd_tests::bench b;
  b.decide(500ms);
  const auto decided = b.a.last_decision().at;
  b.in_flight = 20;
  b.calls(5000, 500ms);
  CHECK(b.a.last_decision().at == decided);
}
