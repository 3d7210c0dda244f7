#include "canigo/detail/pool/pool_names.hpp"

#include "support/catch.hpp"

#include <cstddef>
#include <string>
#include <vector>

using namespace canigo;
using canigo::detail::pool_names;

TEST_CASE("a name has one entry, which stays where it is", "[pool_names]") {
  pool_names names;
  name_stats& a = names.of("a");
  CHECK(a.name == "a");
  a.attempts = 7;
  for (int i = 0; i < 100; ++i) names.of(std::to_string(i));
  CHECK(&names.of("a") == &a);
  CHECK(names.of("a").attempts == 7);
  CHECK(names.size() == 101);
}

TEST_CASE("names beyond the last one that has an entry of its own share one", "[pool_names]") {
  pool_names names;
  std::vector<name_stats*> own;
  for (std::size_t i = 0; i < pool_names::most - 1; ++i) own.push_back(&names.of("n" + std::to_string(i)));
  name_stats& others = names.of("one more");
  CHECK(others.name == "(other)");
  CHECK(&names.of("another") == &others);
  CHECK(names.size() == pool_names::most);
  for (std::size_t i = 0; i < own.size(); ++i) REQUIRE(&names.of("n" + std::to_string(i)) == own[i]);
}

TEST_CASE("what is written of the names is by name, and says where the name is", "[pool_names]") {
  pool_names names;
  names.of("b").failed = 2;
  names.of("a").succeeded = 1;
  names.of("a").attempts = 3;
  names.of("a").ran.record(duration{5});
  names.of("b").waited.record(duration{6});
  std::vector<name_stats> stats(names.size());
  std::vector<const std::string*> texts;
  texts.reserve(names.size());
  names.write(stats, texts);
  REQUIRE(texts.size() == 2);
  CHECK(*texts[0] == "a");
  CHECK(*texts[1] == "b");
  CHECK(stats[0].attempts == 3);
  CHECK(stats[0].succeeded == 1);
  CHECK(stats[0].ran.max() == duration{5});
  CHECK(stats[1].failed == 2);
  CHECK(stats[1].waited.max() == duration{6});
}
