#include "canigo/detail/queue/delay_watch.hpp"

#include "support/catch.hpp"

using namespace canigo;
using namespace std::chrono_literals;
using detail::delay_watch;

namespace delays {

constexpr time_point start{1000s};
constexpr shedding_options five{.target = 5ms, .interval = 100ms};

}  // namespace delays

TEST_CASE("a class is overloaded when for a whole interval nobody waited less than the target", "[delay_watch]") {
  using delays::start;
  struct row {
    duration came, went;  // one that is granted
    duration at;          // when it is asked
    bool is_overloaded;
  };
  const row rows[] = {
      {0ms, 4ms, 103ms, false},        // met at 4 ms
      {0ms, 4ms, 104ms, true},         // and since then never
      {0ms, 5ms - 1ns, 104ms, false},  // just less than the target
      {0ms, 5ms, 100ms, true},         // the target itself is not less
      {0ms, 60ms, 99ms, false},       {0ms, 60ms, 100ms, true}, {58ms, 60ms, 159ms, false}, {58ms, 60ms, 160ms, true},
  };
  for (const row& r : rows) {
    delay_watch w{delays::five, 1};
    w.first_comes(0, start);
    w.one_goes(0, start + r.came, start + r.went);
    CAPTURE(r.came.count(), r.went.count(), r.at.count());
    CHECK(w.is_overloaded(0, start + r.at) == r.is_overloaded);
  }
}

TEST_CASE("a wait of more than twice the target is too long, once its class is overloaded", "[delay_watch]") {
  using delays::start;
  delay_watch w{delays::five, 2};
  w.first_comes(0, start);
  w.first_comes(1, start + 50ms);
  CHECK(w.shed_at(0, start) == start + 100ms);
  CHECK(w.shed_at(0, start + 89ms) == start + 100ms);
  CHECK(w.shed_at(0, start + 95ms) == start + 105ms + 1ns);
  CHECK(w.shed_at(1, start + 50ms) == start + 150ms);  // each class for itself
  w.one_goes(0, start + 197ms, start + 200ms);
  CHECK(w.shed_at(0, start) == start + 300ms);
}

TEST_CASE("the newest goes first only while its class is overloaded, and only if that is wanted", "[delay_watch]") {
  using delays::start;
  delay_watch w{{.target = 5ms, .interval = 100ms, .newest_first = true}, 1};
  w.first_comes(0, start);
  CHECK_FALSE(w.takes_newest(0, start + 99ms));
  CHECK(w.takes_newest(0, start + 100ms));
  w.one_goes(0, start + 60ms, start + 100ms);  // the newest went, but the oldest has waited for long
  CHECK(w.takes_newest(0, start + 100ms));
  w.one_goes(0, start + 98ms, start + 101ms);
  CHECK_FALSE(w.takes_newest(0, start + 101ms));
  CHECK_FALSE(delay_watch(delays::five, 1).takes_newest(0, start));
}

TEST_CASE("targets and instants at the ends of their range saturate", "[delay_watch]") {
  delay_watch w{{.target = duration::max(), .interval = duration::max()}, 1};
  w.first_comes(0, time_point::max());
  CHECK_FALSE(w.is_overloaded(0, time_point::max() - 1ns));
  CHECK(w.shed_at(0, time_point::min()) == time_point::max());
  w.one_goes(0, time_point::min(), time_point::max());
}
