// The processor's clock between two readings of the system's, on two threads: `processor_clock_test [SECONDS]`. It is a
// program of its own, because the other tests have a clock_gettime of theirs, which takes too long for an anchor.

#include "canigo/detail/time/processor_clock.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
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

/// Whether Linux says that the counter is the clock, and has the same frequency always.
bool should_be_trusted() {
  const auto has_word = [](const char* file, const std::string& wanted) {
    std::ifstream in{file};
    for (std::string word; in >> word;) {
      if (word == wanted) return true;
    }
    return false;
  };
  const char* const source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
#if defined(__x86_64__)
  return has_word(source, "tsc") && has_word("/proc/cpuinfo", "nonstop_tsc");
#elif defined(__aarch64__)
  return has_word(source, "arch_sys_counter");
#else
  return false;
#endif
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
  if (canigo::detail::processor_counter::is_trusted() != should_be_trusted()) {
    std::printf("the counter of this machine should %sbe trusted\n", should_be_trusted() ? "" : "not ");
    return 1;
  }
  return f.ahead == 0 && f.too_far_behind == 0 ? 0 : 1;
}
