#include "canigo/time.hpp"

#include "canigo/detail/time/processor_clock.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <type_traits>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::saturating_add;
using canigo::time_point;
using canigo::to_string;

TEST_CASE("a duration is shown in its largest exact unit", "[time]") {
  CHECK(to_string(duration{0}) == "0s");
  CHECK(to_string(1ns) == "1ns");
  CHECK(to_string(1000ns) == "1us");
  CHECK(to_string(1500us) == "1500us");
  CHECK(to_string(1500ms) == "1500ms");
  CHECK(to_string(3s) == "3s");
  CHECK(to_string(90s) == "90s");
  CHECK(to_string(120s) == "2m");
  CHECK(to_string(36h) == "36h");
  CHECK(to_string(240h) == "10d");
  CHECK(to_string(-5us) == "-5us");
  CHECK(to_string(duration::max()) == "9223372036854775807ns");
  CHECK(to_string(duration::min()) == "-9223372036854775808ns");
}

TEST_CASE("adding to an instant stops at the ends of time", "[time]") {
  CHECK(saturating_add(time_point{5s}, 2s) == time_point{7s});
  CHECK(saturating_add(time_point{5s}, -7s) == time_point{-2s});
  CHECK(saturating_add(time_point::max() - 1ns, 1ns) == time_point::max());
  CHECK(saturating_add(time_point::max() - 1ns, 2ns) == time_point::max());
  CHECK(saturating_add(time_point::max(), duration::max()) == time_point::max());
  CHECK(saturating_add(time_point::min() + 1ns, -2ns) == time_point::min());
  CHECK(saturating_add(time_point::min(), duration::min()) == time_point::min());
  CHECK(saturating_add(time_point::min(), duration::max()) == time_point{-1ns});
  CHECK(saturating_add(time_point::max(), duration::min()) == time_point{-1ns});
}

TEST_CASE("the time between two instants is never negative and stops at the largest", "[time]") {
  CHECK(canigo::time_between(time_point{5s}, time_point{7s}) == 2s);
  CHECK(canigo::time_between(time_point{5s}, time_point{5s}) == 0s);
  CHECK(canigo::time_between(time_point{5s}, time_point{3s}) == 0s);
  CHECK(canigo::time_between(time_point{1ms}, time_point::min()) == 0s);
  CHECK(canigo::time_between(time_point::min(), time_point::max()) == duration::max());
  CHECK(canigo::time_between(time_point{-1ns}, time_point::max()) == duration::max());
  CHECK(canigo::time_between(time_point{-2ns}, time_point::max() - 1ns) == duration::max());
  CHECK(canigo::time_between(time_point{-1ns}, time_point::max() - 1ns) == duration::max());
  CHECK(canigo::time_between(time_point{-1ns}, time_point::max() - 2ns) == duration::max() - 1ns);
}

TEST_CASE("the time that is read is the steady clock's", "[time]") {
  for (int i = 0; i < 1000; ++i) {
    const auto before = std::chrono::steady_clock::now();
    const time_point now = canigo::detail::steady_now();
    const auto after = std::chrono::steady_clock::now();
    CHECK(before <= now);
    CHECK(now <= after);
  }
}

TEST_CASE("a deadline is a point in time, and never unless it is said", "[time]") {
  canigo::deadline_point deadline;
  CHECK(deadline == canigo::time_point::max());
  const canigo::time_point at{std::chrono::seconds{3}};
  deadline = at;
  CHECK(deadline == at);
  CHECK(deadline - at == canigo::duration::zero());
  deadline = std::chrono::time_point_cast<std::chrono::milliseconds>(at + std::chrono::milliseconds{5});
  CHECK(deadline > at);
  const canigo::time_point back = deadline;
  CHECK(back == at + std::chrono::milliseconds{5});
  static_assert(std::is_trivially_copyable_v<canigo::deadline_point>);
}
