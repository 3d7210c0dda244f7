#include "../../lib/jobs/history.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <vector>

using namespace canigo::jobs;
using canigo::jobs::detail::decode_history;

TEST_CASE("a history is written and read line by line", "[jobs]") {
  using namespace std::chrono_literals;
  const std::vector<event> all = {{.at = instant{1us}, .what = event::type::failed, .attempt = 3, .text = "it broke"},
                                  {.at = instant{-7us}, .what = event::type::crashed, .attempt = 0, .text = {}},
                                  {.at = instant{2us}, .what = event::type::expired, .attempt = 12, .text = " a b "}};
  const std::string text = canigo::jobs::detail::encode(all);
  CHECK(text == "1 3 f it broke\n-7 0 c \n2 12 e  a b \n");
  CHECK(decode_history(text) == all);
  CHECK(decode_history(text.substr(0, text.size() - 1)) == all);
  CHECK(decode_history("").empty());
}

TEST_CASE("a line of a history that another program wrote is passed over", "[jobs]") {
  for (const char* line : {"", "x", "1", "1 ", "1 2", "1 2 ", "1 2 f", "1 2 fx", "1 2 fxy", "1 2 x text", "1 2  text",
                           "1  f text", "a 2 f text", "1 b f text", "1x2 f text", "1 2xf text",
                           "99999999999999999999 2 f t", "1 -2 f text", "1 4294967296 f text"}) {
    CAPTURE(line);
    const auto found = decode_history(std::string{"5 1 f before\n"} + line + "\n6 2 c \n");
    REQUIRE(found.size() == 2);
    CHECK(found[0].text == "before");
    CHECK(found[1].attempt == 2);
    CHECK(decode_history(line).empty());
  }
}

TEST_CASE("a history has an end, and loses its oldest entries", "[jobs]") {
  std::vector<event> history;
  for (std::uint32_t i = 1; i <= most_events + 2; ++i) {
    event e;
    e.attempt = i;
    canigo::jobs::detail::add_event(history, e);
  }
  REQUIRE(history.size() == most_events);
  CHECK(history.front().attempt == 3);
  CHECK(history.back().attempt == most_events + 2);
}
