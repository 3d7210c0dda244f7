#include "canigo/detail/time/decimal_seconds.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>

using namespace std::chrono_literals;
using canigo::duration;
using canigo::detail::parse_decimal_seconds;

TEST_CASE("seconds may have a fraction, which is rounded up to milliseconds", "[time]") {
  const auto read = [](std::string_view text) { return parse_decimal_seconds(text, 1h); };
  CHECK(read("0") == 0s);
  CHECK(read("7") == 7s);
  CHECK(read("007") == 7s);
  CHECK(read("1.5") == 1500ms);
  CHECK(read("0.0") == 0s);
  CHECK(read("2.000") == 2s);
  CHECK(read("0.25") == 250ms);
  CHECK(read("0.001") == 1ms);
  CHECK(read("0.0001") == 1ms);
  CHECK(read("0.0010000000000000000000000000001") == 2ms);
  CHECK(read("0.0010000000000000000000000000000") == 1ms);
  CHECK(read("0.999") == 999ms);
  CHECK(read("0.9991") == 1s);
}

TEST_CASE("no number of seconds is longer than the bound", "[time]") {
  CHECK(parse_decimal_seconds("2", 1500ms) == 1500ms);
  CHECK(parse_decimal_seconds("1.5", 1500ms) == 1500ms);
  CHECK(parse_decimal_seconds("1.6", 1500ms) == 1500ms);
  CHECK(parse_decimal_seconds("1.4", 1500ms) == 1400ms);
  CHECK(parse_decimal_seconds("0.5", 0s) == 0s);
  CHECK(parse_decimal_seconds(std::string(1000, '9'), 24h) == 24h);
  CHECK(parse_decimal_seconds("1." + std::string(1000, '9'), 24h) == 2s);
  CHECK(parse_decimal_seconds("9223372036.9", duration::max()) == duration::max());
  CHECK(parse_decimal_seconds("9223372036.8", duration::max()) == duration{9223372036800000000});
}

TEST_CASE("what is no number of seconds is none", "[time]") {
  for (const std::string_view text :
       {"", ".", "1.", ".5", "-1", "+1", "1,5", "1.5.5", "1.5s", "1e3", " 1", "1 ", "0x10", "1.-5", "\x80"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_decimal_seconds(text, 1h));
  }
}
