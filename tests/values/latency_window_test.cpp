#include "canigo/algorithms/latency_window.hpp"

#include "support/catch.hpp"

#include <chrono>

using namespace canigo;
using namespace std::chrono_literals;

TEST_CASE("a window knows no quantile before it has enough samples", "[latency_window]") {
  latency_window w{{.length = 10s, .least_samples = 3}};
  const time_point t{1h};
  CHECK_FALSE(w.quantile(t, 0.5));
  CHECK(w.count(t) == 0);
  w.record(t, 10ms);
  w.record(t, 20ms);
  CHECK_FALSE(w.quantile(t, 0.5));
  w.record(t, 30ms);
  CHECK(w.count(t) == 3);
  CHECK(w.quantile(t, 0).value() >= 10ms);
  CHECK(w.quantile(t, 0.5).value() >= 20ms);
  CHECK(w.quantile(t, 0.5).value() <= 25ms);
  CHECK(w.quantile(t, 1).value() == 30ms);
}

TEST_CASE("a window forgets samples after half its length to the whole of it", "[latency_window]") {
  latency_window w{{.length = 10s, .least_samples = 1}};
  const time_point t{1h};
  w.record(t, 1s);
  w.record(t + 4s, 2s);
  CHECK(w.count(t + 4999ms) == 2);
  w.record(t + 5s, 1ms);  // the first two are in the older half now
  CHECK(w.count(t + 9s) == 3);
  CHECK(w.quantile(t + 9s, 1).value() == 2s);
  w.record(t + 10s, 2ms);
  CHECK(w.count(t + 10s) == 2);
  CHECK(w.quantile(t + 10s, 1).value() == 2ms);
  // Without new samples it empties as time passes.
  CHECK(w.count(t + 15s) == 1);
  CHECK(w.count(t + 20s) == 0);
  CHECK_FALSE(w.quantile(t + 20s, 0.5));
  w.record(t + 1h, 3ms);
  CHECK(w.count(t + 1h) == 1);
}

TEST_CASE("a window bears a clock at its ends, and one that steps back", "[latency_window]") {
  latency_window w{{.length = 10s, .least_samples = 1}};
  w.record(time_point::min(), 1ms);
  w.record(time_point::max(), 2ms);
  CHECK(w.quantile(time_point::max(), 1).value_or(0s) <= 2ms);
  latency_window back;
  for (int i = 0; i < 20; ++i) back.record(time_point{1h}, 5ms);
  for (int i = 0; i < 20; ++i) back.record(time_point{1min}, 5ms);
  CHECK(back.count(time_point{1h}) == 40);
}
