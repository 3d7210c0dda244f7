#include "canigo/time.hpp"

#include "catch.hpp"

using namespace std::chrono_literals;
using canigo::duration;
using canigo::to_string;

TEST_CASE("a duration is shown in its largest exact unit", "[time]") {
  CHECK(to_string(duration{0}) == "0s");
  CHECK(to_string(1ns) == "1ns");
  CHECK(to_string(1000ns) == "1us");
  CHECK(to_string(1500us) == "1500us");
  CHECK(to_string(1500ms) == "1500ms");
  CHECK(to_string(3s) == "3s");
  CHECK(to_string(90s) == "90s");
  CHECK(to_string(120s) == "2m");
  CHECK(to_string(36h) == "36h");
  CHECK(to_string(240h) == "10d");
  CHECK(to_string(-5us) == "-5us");
  CHECK(to_string(duration::max()) == "9223372036854775807ns");
  CHECK(to_string(duration::min()) == "-9223372036854775808ns");
}
