#include "canigo/redis/failure_mode.hpp"

#include "support/catch.hpp"

using canigo::redis::failure_mode;

TEST_CASE("a failure mode has its kind, and its share of the rates") {
  CHECK(failure_mode::closed().what() == failure_mode::kind::closed);
  CHECK(failure_mode::closed().share() == 0);
  CHECK(failure_mode::open().what() == failure_mode::kind::open);
  CHECK(failure_mode::open().share() == 1);
  constexpr failure_mode half = failure_mode::local(0.5);
  CHECK(half.what() == failure_mode::kind::local);
  CHECK(half.share() == 0.5);
}
