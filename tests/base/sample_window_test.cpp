#include "canigo/detail/base/sample_window.hpp"

#include "canigo/detail/base/random.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::time_point;
using canigo::detail::sample_window;

TEST_CASE("the median of a window is that of its latencies, to an eighth of an octave", "[sample_window]") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::uint64_t random = seed;
    sample_window w;
    w.open(time_point{});
    std::vector<double> all;
    const int shift = static_cast<int>(seed % 40) + 4;
    for (int i = 0; i < 101; ++i) {
      const auto ns = canigo::detail::next_random(random) >> (63 - shift);
      all.push_back(static_cast<double>(ns));
      w.add(duration{static_cast<std::int64_t>(ns)}, true, 1);
    }
    std::ranges::sort(all);
    INFO("seed " << seed << ", exact " << all[50]);
    CHECK(w.median_ns() <= all[51] * 1.125 + 64);
    CHECK(w.median_ns() >= all[49] / 1.125 - 64);
  }
}

TEST_CASE("a window counts drops apart from latencies", "[sample_window]") {
  sample_window w;
  CHECK_FALSE(w.is_open());
  CHECK(w.median_ns() == 0);
  w.open(time_point{1s});
  CHECK(w.is_open());
  for (int i = 0; i < 19; ++i) w.add(1ms, true, 3);
  w.add(1us, false, 7);
  CHECK_FALSE(w.dropped_share() > .05);  // to the bit: aimd compares it with this
  w.add(1us, false, 2);
  CHECK(w.dropped_share() > .05);
  CHECK(w.ok() == 19);
  CHECK(w.all() == 21);
  CHECK(w.peak() == 7);
  CHECK(w.sum_ns() == Approx(19e6));
  CHECK(w.mean_ns() == Approx(1e6));
  CHECK(w.dropped_share() == Approx(2. / 21));
  CHECK(w.dropped_time_share() == Approx(2e3 / 19.002e6));
  CHECK(w.median_ns() == Approx(1e6).epsilon(.13));
  CHECK(w.age_ns(time_point{3s}) == Approx(2e9));
  CHECK(w.age_ns(time_point{0s}) == 0);
  w.add(-1s, true, 1);
  w.add(duration::max(), true, 1);
  CHECK(w.all() == 23);
  w.open(time_point{4s});
  CHECK(w.all() == 0);
  CHECK(w.mean_ns() == 0);
  CHECK(w.dropped_share() == 0);
  CHECK(w.dropped_time_share() == 0);
}
