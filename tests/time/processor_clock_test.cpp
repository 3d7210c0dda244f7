// The processor's clock between two readings of the system's, on two threads: `processor_clock_test [SECONDS]`. It is a
// program of its own, because the other tests have a clock_gettime of theirs, which takes too long for an anchor.

#include "canigo/detail/time/processor_clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

using canigo::duration;
using canigo::time_point;
using canigo::detail::processor_clock;
using canigo::detail::steady_now;
using namespace std::chrono_literals;

namespace {

// 1 us, and what the system's clock is steered by.
constexpr duration most_behind = 2us;

struct findings {
  std::atomic<long> readings{0};
  std::atomic<long> ahead{0};
  std::atomic<long> too_far_behind{0};
  std::atomic<duration::rep> furthest_behind{0};
};

/// A thread may be preempted between two readings. What lies in between was right all the while.
void read_until(time_point end, findings& f) {
  duration furthest{};
  for (time_point after{}; after < end;) {
    const time_point before = steady_now();
    const time_point now = processor_clock.now();
    after = steady_now();
    if (now > after) ++f.ahead;
    if (now < before - most_behind) ++f.too_far_behind;
    furthest = std::max(furthest, before - now);
    ++f.readings;
  }
  duration::rep other = f.furthest_behind;
  while (furthest.count() > other && !f.furthest_behind.compare_exchange_weak(other, furthest.count())) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::chrono::duration<double> span{argc > 1 ? std::atof(argv[1]) : 0.5};
  const time_point end = steady_now() + std::chrono::duration_cast<duration>(span);
  findings f;
  std::thread other{[&] { read_until(end, f); }};
  read_until(end, f);
  other.join();
  std::printf("%ld readings, %ld ahead, %ld too far behind; at most %lld ns behind: %s\n", f.readings.load(),
              f.ahead.load(), f.too_far_behind.load(), static_cast<long long>(f.furthest_behind.load()),
              f.furthest_behind.load() > 0 ? "counted" : "the system was asked");
  return f.ahead == 0 && f.too_far_behind == 0 ? 0 : 1;
}
