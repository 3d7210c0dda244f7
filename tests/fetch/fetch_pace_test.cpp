// How canigo-fetch finds out what a server takes, against servers that are a few lines each, in time that is counted.

#include "../tools/fetch/pace.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <random>

using namespace std::chrono_literals;
using canigo::time_point;

namespace {

using server = std::function<bool(time_point)>;  // whether it takes a request

double seconds(canigo::duration d) { return std::chrono::duration<double>(d).count(); }

/// So many a second, and a burst.
server bucket(double rate, double burst) {
  return [=, level = burst, last = time_point{}](time_point now) mutable {
    level = std::min(burst, level + rate * seconds(now - last));
    last = now;
    if (level < 1) return false;
    --level;
    return true;
  };
}

/// So many in each second of the clock.
server window(std::size_t most) {
  return [=, current = time_point{}, count = std::size_t{0}](time_point now) mutable {
    const auto second = std::chrono::floor<std::chrono::seconds>(now);
    if (second != current) count = 0;
    current = second;
    return ++count <= most;
  };
}

struct outcome {
  double per_second;
  std::size_t refused;
  fetch::pace pace;
};

/// As many requests as are taken of `wanted`, by one who would like 200 a second. A refusal costs `pause`.
outcome ask(server takes, std::size_t wanted, canigo::duration pause) {
  outcome o{0, 0, fetch::pace{200}};
  const time_point begin{1h};
  std::mt19937 random{1};
  std::exponential_distribution<double> lateness{1000};  // a millisecond
  time_point now = begin;
  for (std::size_t taken = 0; taken < wanted;) {
    now += std::chrono::ceil<canigo::duration>(std::chrono::duration<double>{lateness(random)});
    if (takes(now)) {
      ++taken;
      o.pace.taken(now, now + 1ms);
      now += std::max<canigo::duration>(5ms, o.pace.gap());
    } else {
      ++o.refused;
      o.pace.refused(now, now + 1ms, pause);
      now += std::max({canigo::duration{5ms}, o.pace.gap(), pause + 1ms});
    }
  }
  o.per_second = static_cast<double>(wanted) / seconds(now - begin);
  return o;
}

}  // namespace

TEST_CASE("a server that refuses is used by four fifths of what it takes") {
  SECTION("where a refusal costs a second") {
    CHECK(ask(bucket(50, 5), 400, 1s).per_second > 40);
    CHECK(ask(bucket(50, 5), 1000, 1s).per_second > 40);
    CHECK(ask(bucket(50, 1), 1000, 1s).per_second > 40);
    CHECK(ask(bucket(50, 50), 1000, 1s).per_second > 40);
    CHECK(ask(bucket(20, 5), 1000, 1s).per_second > 16);
    CHECK(ask(bucket(100, 20), 2000, 1s).per_second > 80);
  }
  SECTION("where it does not say when to come back") {
    CHECK(ask(bucket(50, 5), 400, 0s).per_second > 40);
    CHECK(ask(bucket(50, 1), 1000, 0s).per_second > 40);
    CHECK(ask(bucket(100, 20), 1000, 0s).per_second > 80);
    CHECK(ask(window(50), 1000, 0s).per_second > 40);
  }
}

TEST_CASE("a server that refuses is asked for little more than it takes") {
  CHECK(ask(bucket(50, 5), 1000, 1s).refused < 10);
  // A second and a half at the full rate, to find out.
  CHECK(ask(bucket(50, 5), 1000, 0s).refused < 300);
  CHECK(ask(window(50), 3000, 0s).refused < 1000);
}

TEST_CASE("the pace rises again when the server takes more") {
  auto slow = bucket(20, 5);
  auto fast = bucket(500, 5);
  const auto recovered = [&](time_point now) { return now < time_point{1h + 10s} ? slow(now) : fast(now); };
  for (const canigo::duration pause : {0s, 1s}) {
    const outcome o = ask(recovered, 10'000, pause);
    CHECK_FALSE(o.pace.is_slowed());
    CHECK(o.pace.gap() == 0s);
  }
}

TEST_CASE("a server that is closed for a while is asked as before when it is open again") {
  const auto closed = [](time_point now) { return now > time_point{1h + 10min}; };
  CHECK_FALSE(ask(closed, 10, 60s).pace.is_slowed());
  CHECK_FALSE(ask(closed, 5000, 0s).pace.is_slowed());
}

TEST_CASE("a server is never asked less than every other second, but for its pauses") {
  fetch::pace p{200};
  time_point now{1h};
  for (int i = 0; i < 1000; ++i) {
    now += std::max<canigo::duration>(5ms, p.gap());
    p.refused(now, now, 0s);
  }
  CHECK(p.gap() == 2s);
  fetch::pace rare{0.01};
  for (int i = 0; i < 10; ++i) {
    rare.refused(now, now, 0s);
    now += 100s;
  }
  CHECK(rare.gap() == 0s);
}

TEST_CASE("requests that were under way when the pace changed change it no further") {
  fetch::pace p{200};
  const time_point now{1h};
  p.taken(now, now + 10ms);
  p.refused(now + 5ms, now + 20ms, 1s);
  const double slowed = p.per_second();
  CHECK(slowed < 200);
  for (int i = 0; i < 20; ++i) p.refused(now + 10ms, now + 21ms, 1s);
  for (int i = 0; i < 20; ++i) p.taken(now + 10ms, now + 21ms);
  CHECK(p.per_second() == slowed);
}
