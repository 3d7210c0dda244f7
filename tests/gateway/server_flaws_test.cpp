#include "gateway/wire/server_flaws.hpp"

#include "support/catch.hpp"

#include <string>
#include <string_view>

using canigo::gateway::ends_within_status_line;
using canigo::gateway::has_chunk_line;
using canigo::gateway::mend_chunk_line;
using canigo::gateway::mend_status_line;

TEST_CASE("a status line without a reason and its blank is mended", "[gateway]") {
  const auto mended = mend_status_line("HTTP/1.1 200\r\nA: b\r\n\r\nbody");
  REQUIRE(mended);
  CHECK(mended->text == "HTTP/1.1 200 \r\nA: b\r\n\r\nbody");
  CHECK(mended->of_server(0) == 0);
  CHECK(mended->of_server(12) == 12);
  CHECK(mended->of_server(23) == 22);
  for (const std::string_view sound :
       {"HTTP/1.1 200 \r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200", "HTTP/1.1 200\r", "HTTP/1.1 20\r\n",
        "HTTP/1.1 2000\r\n", "HTTP/2.1 200\r\n", "HTTP/1.x 200\r\n", "HTTP/1.1-200\r\n", "HTTP/1.1 2a0\r\n", ""}) {
    CAPTURE(sound);
    CHECK_FALSE(mend_status_line(sound));
  }
}

TEST_CASE("a status line that ends within its line break waits for the rest", "[gateway]") {
  CHECK(ends_within_status_line("HTTP/1.1 200\r"));
  for (const std::string_view other :
       {"HTTP/1.1 200", "HTTP/1.1 200\r\n", "HTTP/1.1 200 \r", "HTTP/1.1 20\r", "", "\r"}) {
    CAPTURE(other);
    CHECK_FALSE(ends_within_status_line(other));
  }
}

TEST_CASE("blanks behind a chunk's size are left out", "[gateway]") {
  const auto first = mend_chunk_line("1a \t\r\nbytes");
  REQUIRE(first);
  CHECK(first->text == "1a\r\n");
  CHECK(first->of_server(2) == 2);
  CHECK(first->of_server(4) == 6);
  CHECK(mend_chunk_line("\r\n10 \r\nmore")->text == "\r\n10\r\n");
  const auto next = mend_chunk_line("\r\n0 \r\n\r\n");
  REQUIRE(next);
  CHECK(next->text == "\r\n0\r\n\r\n");
  CHECK(next->of_server(7) == 8);
  for (const std::string_view sound :
       {"2\r\n", "2 ;a=b\r\n", " 2\r\n", "\r\n\r\n", " \r\n", "2 x\r\n", "2 \n", "2 \r", "2 ", ""}) {
    CAPTURE(sound);
    CHECK_FALSE(mend_chunk_line(sound));
  }
}

TEST_CASE("the line of a chunk's size ends behind that of the last chunk", "[gateway]") {
  CHECK(has_chunk_line("2\r\n"));
  CHECK(has_chunk_line("\r\n2 \r\nab"));
  for (const std::string_view open : {"", "\r", "\r\n", "\r\n2", "\r\n2 \r", "2"}) {
    CAPTURE(open);
    CHECK_FALSE(has_chunk_line(open));
  }
}
