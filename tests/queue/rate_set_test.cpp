#include "canigo/detail/queue/rate_set.hpp"

#include "support/catch.hpp"

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace rate_set_test {

using namespace std::chrono_literals;
using canigo::rate;
using canigo::time_point;
using canigo::token_bucket;
using canigo::detail::amounts_by_unit;
using canigo::detail::demand;
using canigo::detail::rate_set;

constexpr time_point start{1h};

token_bucket full(const rate& r, std::uint64_t burst) { return token_bucket{r, burst, burst, start}; }

/// Ten calls a second, 100 bytes a second, and 30 calls a minute.
rate_set calls_and_bytes() {
  return rate_set{{full(rate::per_second(10), 10), full(rate::per_second(100), 200), full(rate::per_minute(30), 5)},
                  {0, 1, 0}};
}

std::vector<std::int64_t> levels(const rate_set& rates, time_point now = start) {
  std::vector<std::int64_t> all;
  for (const token_bucket& b : rates) all.push_back(b.available(now));
  return all;
}

TEST_CASE("each rate counts its own unit of a request") {
  rate_set rates = calls_and_bytes();
  const amounts_by_unit wanted{2, 150};
  const demand d{2, &wanted};
  REQUIRE(rates.can_take(start, d));
  rates.take(start, d);
  CHECK(levels(rates) == std::vector<std::int64_t>{8, 50, 3});
  rates.refund(start, d);
  CHECK(levels(rates) == std::vector<std::int64_t>{10, 200, 5});
  rates.charge(start, d);
  rates.charge(start, d);
  CHECK(levels(rates) == std::vector<std::int64_t>{6, -100, 1});
}

TEST_CASE("a request that names no other unit takes none of it") {
  rate_set rates = calls_and_bytes();
  rates.take(start, 3);
  CHECK(levels(rates) == std::vector<std::int64_t>{7, 200, 2});
  CHECK_FALSE(rates.can_take(start, 3));
  CHECK(rates.can_take(start, 2));
}

TEST_CASE("a settlement concerns the rates of its unit") {
  rate_set rates = calls_and_bytes();
  rates.settle(start, 1, 10, 60);
  CHECK(levels(rates) == std::vector<std::int64_t>{10, 150, 5});
  rates.settle(start, 1, 60, 40);
  CHECK(levels(rates) == std::vector<std::int64_t>{10, 170, 5});
  rates.settle(start, 0, 1, 2);
  CHECK(levels(rates) == std::vector<std::int64_t>{9, 170, 4});
}

TEST_CASE("a strict window counts a late grant as of when it was made") {
  canigo::detail::rate_windows windows;
  windows.emplace_back(rate{10, 1s});
  rate_set rates{{full(rate{10, 1s}, 10)}, {}, std::move(windows)};
  rates.take(start, 10);
  rates.take(start + 1s + 1ns, 10, start + 1s + 15ms);
  CHECK_FALSE(rates.can_take(start + 2s + 15ms, 1));
  CHECK(rates.can_take(start + 2s + 15ms + 1ns, 1));
  CHECK(rates.ready_at(start + 2s, 1) == start + 2s + 15ms + 1ns);
  CHECK(rates.available(0, start + 2s + 15ms) == 0);
}

TEST_CASE("where there is no rate, none is the slowest") {
  CHECK(canigo::detail::rate_set{}.slowest(start, 1).binds == canigo::wait_reason::cause::none);
}

TEST_CASE("the slowest rate says when all are ready") {
  rate_set rates = calls_and_bytes();
  CHECK(rates.ready_at(start, 5) == start);
  rates.take(start, 5);
  // The third makes a token in two seconds, and has none.
  CHECK(rates.ready_at(start, 1) == start + 2s);
  CHECK(rates.slowest(start, 1).index == 2);
  CHECK(rates.slowest(start, 1).until == start + 2s);
  rates.settle(start, 1, 0, 600);
  const amounts_by_unit wanted{1, 100};
  const demand d{1, &wanted};
  CHECK(rates.slowest(start, d).index == 1);
  CHECK(rates.ready_at(start, d) == start + 5s);
  CHECK(rates.rate_ready_at(0, start, d) == start);
}

TEST_CASE("the smallest burst of a unit bounds a request") {
  const rate_set rates = calls_and_bytes();
  CHECK(rates.largest_request() == 5);
  CHECK(rates.largest_request(1) == 200);
  CHECK(rates.largest_request(2) == std::numeric_limits<std::uint64_t>::max());
  const rate_set of_one_unit{{full(rate::per_second(1), 7), full(rate::per_second(1), 3)}};
  CHECK(of_one_unit.unit_of(1) == 0);
  CHECK(of_one_unit.largest_request() == 3);
}

}  // namespace rate_set_test
