#include "canigo/detail/pool/self_wait.hpp"

#include "support/catch.hpp"

using canigo::detail::self_wait;

TEST_CASE("the last worker that is able to work may not wait for its own pool", "[self_wait]") {
  self_wait waits;
  self_wait::worker one, other;
  self_wait::waiter outside, a, b, c;
  a.comes_from(one);
  b.comes_from(one);
  c.comes_from(other);
  CHECK(waits.begin(outside, 1));  // no worker stands still for it
  CHECK(waits.begin(a, 2));
  CHECK(waits.begin(b, 2));  // the same worker a second time
  CHECK_FALSE(waits.begin(c, 2));
  CHECK(other.first_self_wait() == nullptr);
  CHECK(one.first_self_wait() == &b);
  CHECK(b.next_self_wait() == &a);
  waits.end(a);
  CHECK_FALSE(waits.begin(c, 2));
  waits.end(b);
  CHECK(waits.begin(c, 2));
}

TEST_CASE("a wait that has not begun, or was left behind, ends without a trace", "[self_wait]") {
  self_wait waits;
  self_wait::worker one, other;
  self_wait::waiter outside, a, b;
  a.comes_from(one);
  b.comes_from(other);
  waits.end(outside);
  waits.end(a);
  CHECK(waits.begin(a, 2));
  waits.disown(one);
  waits.disown(one);
  CHECK(one.first_self_wait() == nullptr);
  waits.end(a);
  CHECK(waits.begin(b, 2));
}

TEST_CASE("waits are hopeless if each running worker waits and no other is able to work", "[self_wait]") {
  self_wait waits;
  self_wait::worker one;
  self_wait::waiter a;
  a.comes_from(one);
  CHECK_FALSE(waits.is_hopeless(0, 0));
  CHECK(waits.begin(a, 3));
  CHECK_FALSE(waits.is_hopeless(1, 2));
  CHECK_FALSE(waits.is_hopeless(2, 1));
  CHECK(waits.is_hopeless(1, 1));
  waits.end(a);
  CHECK_FALSE(waits.is_hopeless(0, 0));
}
