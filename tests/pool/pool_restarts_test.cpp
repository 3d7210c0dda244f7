#include "canigo/detail/pool/pool_restarts.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>
#include <deque>

using namespace canigo;
using namespace std::chrono_literals;
using canigo::detail::pool_restarts;

namespace {

constexpr time_point first_look{1h};

}  // namespace

TEST_CASE("so many restarts are allowed in a stretch of time, and no more", "[pool_restarts]") {
  pool_restarts restarts{2, 10s};
  CHECK(restarts.note(first_look));
  CHECK(restarts.note(first_look + 4s));
  CHECK_FALSE(restarts.note(first_look + 4s));
  CHECK_FALSE(restarts.note(first_look + 10s - 1ns));
  CHECK(restarts.note(first_look + 10s));  // the first one is over
  CHECK_FALSE(restarts.note(first_look + 14s - 1ns));
  CHECK(restarts.note(first_look + 14s));
}

TEST_CASE("a restart that is refused counts for nothing", "[pool_restarts]") {
  pool_restarts restarts{1, 10s};
  CHECK(restarts.note(first_look));
  for (int i = 1; i < 10; ++i) CHECK_FALSE(restarts.note(first_look + i * 1s));
  CHECK(restarts.note(first_look + 10s));
}

TEST_CASE("where no restart is allowed the first one is too many", "[pool_restarts]") {
  pool_restarts restarts{0, 10s};
  CHECK_FALSE(restarts.note(first_look));
}

TEST_CASE("a stretch of time without an end counts all restarts", "[pool_restarts]") {
  pool_restarts restarts{2, duration::max()};
  CHECK(restarts.note(first_look));
  CHECK(restarts.note(first_look));
  CHECK_FALSE(restarts.note(time_point::max() - 1ns));
}

TEST_CASE("never more restarts than are allowed lie within the stretch of time", "[pool_restarts]") {
  constexpr std::uint32_t limit = 3;
  constexpr duration within = 7s;
  pool_restarts restarts{limit, within};
  std::deque<time_point> noted;
  std::uint32_t random = 1;
  for (time_point now = first_look; now < first_look + 1h;) {
    random = random * 1664525u + 1013904223u;
    now += duration{1s} * (random >> 29);
    while (!noted.empty() && noted.front() <= now - within) noted.pop_front();
    const bool is_one_too_many = noted.size() == limit;
    REQUIRE(restarts.note(now) == !is_one_too_many);
    if (!is_one_too_many) noted.push_back(now);
  }
}
