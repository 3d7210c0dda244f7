// The line that tells how far canigo-fetch is.

#include "../tools/fetch/progress.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <cstddef>
#include <string>

using namespace std::chrono_literals;
using fetch::progress;
using fetch::to_line;

TEST_CASE("the line says what is done, left, running and waiting in each class") {
  progress p{.done = 1200, .failed = 3, .running = 16, .waiting = {0, 4, 780}, .unread = 0, .per_second = 12.5};
  CHECK(to_line(p, 200) == "1200/2000  1:04 left  12.5/s  3 failed  16 running  4 in class 1  780 in class 2");
  SECTION("of a file that has not been read to its end the rest is estimated") {
    p.unread = 4000;
    CHECK(to_line(p, 31) == "1200/~6000  6:24 left  12.5/s");
  }
  SECTION("of a pipe nobody knows the end") {
    p.unread.reset();
    CHECK(to_line(p, 31) == "1200 done  12.5/s  3 failed");
  }
  SECTION("without a rate nobody knows the time") {
    p.per_second = 0;
    CHECK(to_line(p, 31) == "1200/2000  3 failed  16 running");
  }
  SECTION("a long time is told shortly") {
    p.per_second = 0.1;
    CHECK(to_line(p, 25) == "1200/2000  2:13:20 left");
    p.per_second = 1.0 / 3600;
    CHECK(to_line(p, 25) == "1200/2000  800:00:00 left");
    p.per_second = 0.5 / 3600;
    CHECK(to_line(p, 25) == "1200/2000  67d left");
  }
}

TEST_CASE("the line has room in any terminal, and ends with a whole part") {
  const progress p{.done = 1200, .failed = 3, .running = 16, .waiting = {5, 4, 780}, .unread = 0, .per_second = 12.5};
  const std::string whole = to_line(p, 1000) + "  ";
  for (std::size_t columns = 0; columns < whole.size(); ++columns) {
    const std::string line = to_line(p, columns);
    CHECK(line.size() <= columns);
    CHECK((line.empty() || whole.starts_with(line + "  ")));
  }
}

TEST_CASE("the rate is that of the last ten seconds") {
  const canigo::time_point begin{1h};
  fetch::recent_rate rate{begin};
  CHECK(rate.per_second(0, begin) == 0);
  std::size_t done = 0;
  auto now = begin;
  for (; now < begin + 100s; now += 200ms) rate.per_second(done += 20, now);
  CHECK(rate.per_second(done, now) == Approx(100).epsilon(0.05));
  for (; now < begin + 111s; now += 200ms) rate.per_second(done += 2, now);
  CHECK(rate.per_second(done, now) == Approx(10).epsilon(0.05));
  SECTION("and falls while nothing ends") { CHECK(rate.per_second(done, now + 90s) < 2); }
}

TEST_CASE("a rate of few calls an hour is not zero between them") {
  const canigo::time_point begin{1h};
  fetch::recent_rate rate{begin};
  for (std::size_t i = 1; i < 20; ++i) rate.per_second(i, begin + i * 10min);
  CHECK(rate.per_second(19, begin + 195min) == Approx(6.0 / 3600).epsilon(0.2));
}
