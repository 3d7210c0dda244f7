// Lines of heads, without curl and without a server.
#include "../lib/http/response_head.hpp"

#include "canigo/error.hpp"
#include "canigo/http/error.hpp"

#include "support/catch.hpp"

#include <initializer_list>
#include <string_view>
#include <system_error>

namespace response_head_tests {

using canigo::errc;
using canigo::http::error;
using canigo::http::headers;
using canigo::http::detail::response_head;

/// A head that lines go into until one is refused.
struct reader {
  std::error_code take(std::initializer_list<std::string_view> lines) {
    for (const auto line : lines) {
      if (const auto ec = head.take(line, fields, asked)) return ec;
    }
    return {};
  }
  response_head head{200};
  headers fields;
  headers asked;
};

}  // namespace response_head_tests

using namespace response_head_tests;

TEST_CASE("http: of several heads the fields of the last one stay") {
  reader r;
  CHECK_FALSE(r.take({"HTTP/1.1 103 Early Hints\r\n", "Link: a\r\n", "\r\n"}));
  CHECK(r.head.is_complete());
  CHECK_FALSE(r.take({"HTTP/1.1 200 OK\r\n"}));
  CHECK_FALSE(r.head.is_complete());
  CHECK_FALSE(r.take({"Server: x\r\n", " and\r\n", "\ty\r\n", "bare\r\n", "\r\n"}));
  CHECK(r.head.is_complete());
  CHECK_FALSE(r.fields.contains("Link"));
  CHECK(r.fields.find("server") == "x and y");
  CHECK(r.fields.find("bare") == "");
  // A field behind the body.
  CHECK_FALSE(r.take({"Digest: 1\r\n", "Content-Length: none\r\n"}));
  CHECK(r.fields.find("Digest") == "1");
}

TEST_CASE("http: a head that leaves the end of its body open is refused") {
  CHECK_FALSE(reader{}.take({"HTTP/2 200 \r\n", "Content-Length: 5\r\n", "content-length: 5\r\n"}));
  CHECK(reader{}.take({"HTTP/2 200 \r\n", "Content-Length: 5\r\n", "Content-Length: 6\r\n"}) ==
        error::weird_server_reply);
  for (const auto* length : {"Content-Length: 5, 5\r\n", "Content-Length: -1\r\n", "Content-Length:\r\n"}) {
    CHECK(reader{}.take({"HTTP/2 200 \r\n", length}) == error::weird_server_reply);
  }
  // Each head has a length of its own.
  CHECK_FALSE(reader{}.take(
      {"HTTP/1.1 302 a\r\n", "Content-Length: 1\r\n", "\r\n", "HTTP/1.1 200 OK\r\n", "Content-Length: 2\r\n"}));
}

TEST_CASE("http: only a status line begins a head, and 101 only if it was asked for") {
  for (const auto* line : {"HTTP/1.1 099 a\r\n", "HTTP/1.1 20\r\n", "HTTP/1.2 200 OK\r\n", "HTTP 200 OK\r\n",
                           "Server: x\r\n", "\r\n", "HTTP/1.1 2000 OK\r\n"}) {
    CAPTURE(line);
    CHECK(reader{}.take({line}) == error::weird_server_reply);
  }
  CHECK(reader{}.take({"HTTP/1.1 101 Switching Protocols\r\n"}) == error::weird_server_reply);
  reader asks;
  asks.asked.add("Upgrade", "websocket");
  CHECK_FALSE(asks.take({"HTTP/1.1 101 Switching Protocols\r\n"}));
}

TEST_CASE("http: all heads of an answer together have one bound") {
  reader r;
  for (int i = 0; i < 10; ++i) CHECK_FALSE(r.take({"HTTP/1.1 100 a\r\n", "\r\n"}));
  CHECK(r.take({"HTTP/1.1 200 OK\r\n", "Server: 123456789\r\n"}) == errc::too_large);
}
