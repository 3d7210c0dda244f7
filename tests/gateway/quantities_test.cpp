#include "gateway/config/quantities.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;
using canigo::gateway::parse_duration;
using canigo::gateway::parse_percent;
using canigo::gateway::parse_share;
using canigo::gateway::parse_size;

TEST_CASE("gateway: a time is a whole number and a unit", "[gateway]") {
  const std::pair<std::string_view, canigo::duration> good[] = {
      {"500ms", 500ms}, {"20s", 20s}, {"2m", 2min}, {"15m", 15min},
      {"12h", 12h},     {"7d", 168h}, {"0s", 0s},   {"9223372036s", 9223372036s}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    CHECK(parse_duration(text) == value);
  }
  for (const std::string_view bad : {"", "s", "20", "20 s", " 20s", "20s ", "-1s", "+1s", "1.5s", "20S", "20sec", "1us",
                                     "9223372037s", "99999999999999999999s", "1s1s"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration(bad));
  }
}

TEST_CASE("gateway: a size is a whole number and a unit", "[gateway]") {
  const std::pair<std::string_view, std::uint64_t> good[] = {
      {"0B", 0}, {"512B", 512}, {"16KiB", 16384}, {"64MiB", 67108864}, {"2GiB", 2147483648}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    CHECK(parse_size(text) == value);
  }
  for (const std::string_view bad :
       {"", "16", "16K", "16KB", "16kib", "16 KiB", "-1B", "1.5KiB", "9223372036854775808B", "8589934592GiB"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_size(bad));
  }
  CHECK(parse_size("8589934591GiB") == 8589934591ULL << 30);
}

TEST_CASE("gateway: a percentage and a share", "[gateway]") {
  CHECK(parse_percent("20%") == 20);
  CHECK(parse_percent("0%") == 0);
  for (const std::string_view bad : {"", "%", "20", "20 %", "-1%", "0.5%", "1000001%"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_percent(bad));
  }
  CHECK(parse_share("0.5") == 0.5);
  CHECK(parse_share("1") == 1.0);
  CHECK(parse_share("0.001") == 0.001);
  for (const std::string_view bad : {"", "0", "0.0", "1.1", "-0.5", "nan", "inf", "1e-3", "0,5", "0.5 ", "."}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_share(bad));
  }
}
