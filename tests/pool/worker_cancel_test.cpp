#include "canigo/detail/pool/worker_cancel.hpp"

#include "support/catch.hpp"

#include <cstdint>

using canigo::detail::worker_cancel;

TEST_CASE("a cancellation reaches the operation that it is for, once", "[worker_cancel]") {
  worker_cancel c;
  CHECK(c.ask(1));
  CHECK_FALSE(c.ask(1));  // its call is under way
  CHECK(c.begin(1));
  CHECK(c.has_reached(1));
  c.end();
  CHECK(c.ask(1));
  CHECK_FALSE(c.begin(1));
  c.end();
}

TEST_CASE("a cancellation that comes too late does not reach the next operation", "[worker_cancel]") {
  worker_cancel c;
  c.ask(1);
  CHECK_FALSE(c.is_for(2));
  CHECK_FALSE(c.begin(2));
  CHECK_FALSE(c.ask(2));  // the call that is under way carries this one out, too
  CHECK(c.begin(2));
}

TEST_CASE("a signal that found no memory is given again", "[worker_cancel]") {
  worker_cancel c;
  c.ask(1);
  CHECK(c.begin(1));
  c.take_back();
  CHECK_FALSE(c.has_reached(1));
  CHECK(c.begin(1));
}

TEST_CASE("an operation ignores a cancellation once it has had all its turns", "[worker_cancel]") {
  worker_cancel c;
  c.ask(1);
  c.begin(1);
  for (std::uint32_t i = 0; i < worker_cancel::turns_to_end; ++i) REQUIRE_FALSE(c.is_ignored());
  CHECK(c.is_ignored());
  c.ask(2);
  c.begin(2);
  CHECK_FALSE(c.is_ignored());
}
