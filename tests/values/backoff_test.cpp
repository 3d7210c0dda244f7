#include "canigo/algorithms/backoff.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <rapidcheck.h>
#include <utility>

using namespace std::chrono_literals;
using namespace canigo;

TEST_CASE("delays double up to the cap, and stay there for ever") {
  const backoff b{.first = 100ms, .cap = 1s, .jitter = jitter::none};
  CHECK(b.delay(1, 0) == 100ms);
  CHECK(b.delay(2, 0) == 200ms);
  CHECK(b.delay(4, 0) == 800ms);
  CHECK(b.delay(5, 0) == 1s);
  CHECK(b.delay(std::numeric_limits<std::uint32_t>::max(), 0) == 1s);
}

TEST_CASE("a delay after four billion failures is found as fast as one after few") {
  const backoff b{.first = 100ms, .cap = 1s, .jitter = jitter::none};
  for (int i = 0; i < 10'000; ++i) REQUIRE(b.ceiling(std::numeric_limits<std::uint32_t>::max()) == 1s);
}

TEST_CASE("delays grow by the factor as far as a duration goes") {
  const backoff far{.first = 1s, .factor = 3, .cap = duration::max(), .jitter = jitter::none};
  CHECK(far.delay(2, 0) == 3s);
  CHECK(far.delay(20, 0) == 1162261467s);
  CHECK(far.delay(22, 0) == duration::max());
  // The cap is reached exactly, and where the next step would leave it.
  for (const auto& [cap, third] : {std::pair<duration, duration>{9s, 9s}, {9s + 1ns, 9s}, {8s, 8s}}) {
    CHECK(backoff{.first = 1s, .factor = 3, .cap = cap, .jitter = jitter::none}.delay(3, 0) == third);
  }
}

TEST_CASE("a constant backoff is constant") {
  const backoff b = backoff::constant(70ms);
  for (const std::uint32_t n : {1u, 2u, 1u << 31}) CHECK(b.delay(n, ~std::uint64_t{0}) == 70ms);
}

TEST_CASE("jitter covers its range and nothing else") {
  const backoff full{.first = 100ms, .cap = 1s, .min = 10ms};
  CHECK(full.delay(3, 0) == 10ms);
  CHECK(full.delay(3, ~std::uint64_t{0}) == 400ms);
  const backoff equal{.first = 100ms, .cap = 1s, .jitter = jitter::equal};
  CHECK(equal.delay(3, 0) == 200ms);
  CHECK(equal.delay(3, ~std::uint64_t{0}) == 400ms);
}

TEST_CASE("no delay leaves [min, cap], whatever the fields") {
  rc::check([](std::int64_t first, std::uint32_t factor, std::int64_t cap, std::int64_t min, std::uint32_t failures,
               std::uint64_t random) {
    for (const jitter j : {jitter::none, jitter::full, jitter::equal}) {
      const backoff b{duration{first}, factor, duration{cap}, duration{min}, j};
      const duration d = b.delay(failures, random);
      RC_ASSERT(d >= duration::zero());
      RC_ASSERT(d <= std::max(duration{cap}, duration::zero()));
      if (min >= 0 && min <= cap) RC_ASSERT(d >= duration{min});
    }
  });
}

TEST_CASE("a backoff that can't be is refused by name, value and range") {
  const auto text = [](const backoff& b) { return refusal([&] { detail::check(b, "retry.backoff"); }); };
  CHECK(text({.first = -1ms}).find("retry.backoff.first is -1ms; allowed: 0 or more") == 0);
  CHECK(text({.factor = 0}).find("retry.backoff.factor is 0; allowed: 1 or more") == 0);
  CHECK(text({.cap = -1s}).find("retry.backoff.cap is -1s; allowed: 0 or more") == 0);
  CHECK(text({.min = -1s}).find("retry.backoff.min is -1s; allowed: 0 to cap, 30s") == 0);
  CHECK(text({.cap = 1s, .min = 2s}).find("retry.backoff.min is 2s; allowed: 0 to cap, 1s") == 0);
  CHECK(text({.jitter = static_cast<jitter>(3)}).find("retry.backoff.jitter is 3; allowed: none, full, equal") == 0);
  CHECK(text({.jitter = static_cast<jitter>(-1)}).find("retry.backoff.jitter is -1") == 0);
  detail::check({}, "retry.backoff");
  detail::check(backoff::constant(0s), "retry.backoff");
  detail::check({.first = 1min, .cap = 1s, .min = 1s, .jitter = jitter::equal}, "retry.backoff");
}
