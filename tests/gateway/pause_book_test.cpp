#include "gateway/policy/pause_book.hpp"

#include "support/catch.hpp"

#include <chrono>

using canigo::time_point;
using canigo::gateway::pause_book;
using canigo::gateway::pause_cause;
using namespace std::chrono_literals;

TEST_CASE("gateway: an upstream rests as long as any pause lasts", "[gateway][pause]") {
  const time_point t{1h};
  pause_book b;
  CHECK(b.until() == time_point::min());
  b.set(pause_cause::breaker, t + 5s);
  b.extend(pause_cause::upstream, t + 9s);
  CHECK(b.until() == t + 9s);
  b.extend(pause_cause::upstream, t + 2s);
  CHECK(b.until(pause_cause::upstream) == t + 9s);
  b.end(pause_cause::upstream);
  CHECK(b.until() == t + 5s);
  b.set(pause_cause::operator_, time_point::max());
  CHECK(b.until() == time_point::max());
  b.end(pause_cause::operator_);
  b.set(pause_cause::breaker, t + 1s);
  CHECK(b.until() == t + 1s);
  CHECK(b.until(pause_cause::operator_) == time_point::min());
}
