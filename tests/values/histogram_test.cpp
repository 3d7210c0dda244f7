#include "canigo/algorithms/histogram.hpp"

#include "support/catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <rapidcheck.h>
#include <vector>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::wait_histogram;

static_assert(sizeof(wait_histogram) <= 1232);

TEST_CASE("an empty histogram says zero", "[histogram]") {
  const wait_histogram h;
  CHECK(h.count() == 0);
  CHECK(h.max() == 0s);
  CHECK(h.sum().count() == 0.0);
  CHECK(h.quantile(0.5) == 0s);
  CHECK(h.quantile(1) == 0s);
}

TEST_CASE("a histogram of one value gives it back", "[histogram]") {
  for (const duration value : {duration{0}, duration{1}, duration{1us}, duration{1s}, duration{50h}, duration::max()}) {
    wait_histogram h;
    h.record(value);
    CHECK(h.count() == 1);
    CHECK(h.max() == value);
    CHECK(h.sum().count() == Approx(static_cast<double>(value.count()) / 1e9));
    for (double p : {0.0, 0.5, 1.0}) CHECK(h.quantile(p) == value);
  }
}

TEST_CASE("a negative wait counts as none", "[histogram]") {
  wait_histogram h;
  h.record(-1s);
  h.record(duration::min());
  CHECK(h.count() == 2);
  CHECK(h.max() == 0s);
  CHECK(h.quantile(1) == 0s);
}

TEST_CASE("a quantile is the last nanosecond of its bucket", "[histogram]") {
  wait_histogram h;
  h.record(100ns);
  h.record(1024ns);
  h.record(1s);
  CHECK(h.quantile(0.3) == 255ns);
  CHECK(h.quantile(0.6) == 1279ns);
}

TEST_CASE("a share outside 0 to 1 counts as the nearer end", "[histogram]") {
  wait_histogram h;
  h.record(1ms);
  h.record(1s);
  CHECK(h.quantile(-1) == h.quantile(0));
  CHECK(h.quantile(2) == 1s);
  CHECK(h.quantile(std::numeric_limits<double>::infinity()) == 1s);
  CHECK(h.quantile(std::nan("")) == h.quantile(0));
  CHECK(h.quantile(0) < 2ms);
}

TEST_CASE("many that took no time are counted in one step as they would be one by one", "[histogram]") {
  wait_histogram at_once, one_by_one;
  for (wait_histogram* h : {&at_once, &one_by_one}) h->record(1s);
  at_once.record_at_once(7);
  for (int i = 0; i < 7; ++i) one_by_one.record(0s);
  CHECK(at_once.count() == 8);
  CHECK(at_once.max() == 1s);
  CHECK(at_once.sum() == one_by_one.sum());
  for (double p : {0.0, 0.5, 0.875, 0.88, 1.0}) CHECK(at_once.quantile(p) == one_by_one.quantile(p));
}

TEST_CASE("the sum does not wrap when very many wait very long", "[histogram]") {
  wait_histogram h;
  for (int i = 0; i < 1000; ++i) h.record(duration::max());
  CHECK(h.sum().count() == Approx(9.223372036854775807e12));
  CHECK(h.quantile(0.5) == duration::max());
}

TEST_CASE("merging two histograms counts all of both", "[histogram]") {
  wait_histogram a, b, both;
  for (int i = 1; i < 100; ++i) {
    a.record(i * 1ms);
    b.record(i * 10ms);
    both.record(i * 1ms);
    both.record(i * 10ms);
  }
  a.merge(b);
  CHECK(a.count() == both.count());
  CHECK(a.max() == both.max());
  CHECK(a.sum() == both.sum());
  for (double p : {0.0, 0.1, 0.5, 0.9, 0.99, 1.0}) CHECK(a.quantile(p) == both.quantile(p));
}

TEST_CASE("a quantile is at most 25 % above the true one and never below", "[histogram]") {
  CHECK(rc::check("against sorted values", [] {
    std::vector<duration> values;
    wait_histogram h;
    const int n = *rc::gen::inRange(1, 200);
    for (int i = 0; i < n; ++i) {
      const auto power = *rc::gen::inRange(0, 46);
      values.emplace_back(*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << power));
      h.record(values.back());
    }
    std::ranges::sort(values);
    const double p = *rc::gen::inRange(0, 1001) / 1000.0;
    const auto rank = std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(p * n)));
    const duration exact = values[rank - 1];
    RC_ASSERT(h.quantile(p) >= exact);
    RC_ASSERT(h.quantile(p) <= std::max(exact + exact / 4, exact + 256ns));
    RC_ASSERT(h.quantile(1) == values.back());
  }));
}

TEST_CASE("what took less than an edge is counted exactly", "[histogram]") {
  wait_histogram h;
  h.record(0ns);
  h.record_at_once(2);
  h.record(1023ns);
  h.record(1024ns);
  h.record(1h);
  h.record(1000h);
  CHECK(h.count_below(-1ns) == 0);
  CHECK(h.count_below(0ns) == 0);
  CHECK(h.count_below(512ns) == 3);
  CHECK(h.count_below(1024ns) == 4);
  CHECK(h.count_below(2048ns) == 5);
  CHECK(h.count_below(256ns * (std::int64_t{1} << 36)) == 6);
}
