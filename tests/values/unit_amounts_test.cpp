#include "canigo/request.hpp"

#include "support/refusal.hpp"

#include <string>

using namespace canigo;

TEST_CASE("amounts are named by the unit or by its number", "[unit_amounts]") {
  const unit_amounts none;
  CHECK(none.empty());
  CHECK(none.begin() == none.end());

  const unit_amounts two{{"tokens", 1200}, {2, 7}};
  REQUIRE(two.size() == 2);
  CHECK_FALSE(two.begin()[0].unit.is_number());
  CHECK(two.begin()[0].unit.name() == "tokens");
  CHECK(two.begin()[0].amount == 1200);
  CHECK(two.begin()[1].unit.is_number());
  CHECK(two.begin()[1].unit.number() == 2);
  CHECK(two.begin()[1].amount == 7);
}

TEST_CASE("a number that no unit can have stays one", "[unit_amounts]") {
  CHECK(unit_key{0}.number() == 0);
  CHECK(unit_key{-1}.number() == 255);
  CHECK(unit_key{1'000'000'000'000}.number() == 255);
  CHECK(unit_key{1'000'000'000'000}.is_number());
}

TEST_CASE("amounts are copied with what is in them", "[unit_amounts]") {
  unit_amounts first;
  first.add("a", 1);
  unit_amounts second{first};
  second.add("b", 2);
  CHECK(first.size() == 1);
  CHECK(second.size() == 2);
  first = second;
  CHECK(first.size() == 2);
  CHECK(first.begin()[1].unit.name() == "b");
  first = unit_amounts{};
  CHECK(first.empty());
}

TEST_CASE("more than four amounts are refused", "[unit_amounts]") {
  unit_amounts four{{1, 1}, {2, 1}, {3, 1}, {4, 1}};
  CHECK(refusal([&] { four.add("fifth", 1); }).find("request.amounts.size() is 5; allowed: 0 to 4") == 0);
  CHECK(four.size() == 4);
}
