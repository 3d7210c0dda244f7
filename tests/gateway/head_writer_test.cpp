#include "gateway/policy/head_writer.hpp"

#include "gateway/heads.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace gateway = canigo::gateway;
using framing = gateway::outgoing_body::framing;
using gateway_test::head_of;

namespace {

std::string response_fields(const gateway::message_head& head) {
  std::string lines;
  gateway::append_response_fields(lines, head);
  return lines;
}

const std::string via = "1.1 canigo-1";

std::string sent(std::string_view head, gateway::outgoing_request out = {}) {
  if (out.target.empty()) out.target = "/v1/x";
  if (out.host_field.empty()) out.host_field = "api.example.com";
  out.via = via;
  return gateway::request_head(head_of(head), out);
}

}  // namespace

TEST_CASE("gateway: what goes out is built anew, and keeps the order and the bytes of the rest", "[gateway][head]") {
  CHECK(sent("GET /p/v1/x HTTP/1.0\nHost: gateway\nAccept: */*\nX-A: 1\nx-a:  2\nCookie: a=b\n") ==
        "GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nAccept: */*\r\nX-A: 1\r\nx-a:  2\r\nCookie: a=b\r\n"
        "Via: 1.1 canigo-1\r\n\r\n");
}

TEST_CASE("gateway: what belongs to the client's connection stays there", "[gateway][head]") {
  const std::string rest = "GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nVia: 1.1 canigo-1\r\n\r\n";
  for (const std::string fields : {"Connection: close\n",
                                   "connection: X-Mine, x-other\nX-Mine: 1\nX-OTHER: 2\n",
                                   "Keep-Alive: 5\n",
                                   "TE: trailers\n",
                                   "Trailer: X\n",
                                   "Transfer-Encoding: chunked\n",
                                   "Upgrade: h2c\nHTTP2-Settings: x\nConnection: HTTP2-Settings\n",
                                   "Proxy-Authorization: Basic x\n",
                                   "Proxy-Connection: keep-alive\n",
                                   "proxy-anything: x\n",
                                   "Expect: 100-continue\n",
                                   "Content-Length: 5\n",
                                   "Forwarded: for=1.2.3.4\n",
                                   "X-Forwarded-For: 1.2.3.4\n",
                                   "x-forwarded-host: evil\n",
                                   "X-Canigo-Key: secret\n",
                                   "x-canigo-anything: x\n",
                                   "X-CANIGO-PRIORITY: batch\n",
                                   "Connection: a\nConnection: b\na: 1\nb: 2\n",
                                   "X-Late: 1\nConnection: x-late\n"}) {
    CAPTURE(fields);
    CHECK(sent("GET /p HTTP/1.1\nHost: gateway\n" + fields) == rest);
  }
}

TEST_CASE("gateway: a credential takes the place of all that the client sent for it", "[gateway][head]") {
  gateway::credential own{"authorization", {"env:X", "Bearer upstream"}};
  const std::string head =
      "GET / HTTP/1.1\nHost: g\nAuthorization: Bearer client\nAUTHORIZATION: Basic x\nX-Api-Key: k\n";
  CHECK(sent(head, {.credential = &own}) ==
        "GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nauthorization: Bearer upstream\r\n"
        "Via: 1.1 canigo-1\r\n\r\n");
  // One credential goes out, so nothing of a tenant's key does.
  gateway::credential other{"X-Api-Key", {"env:X", "upstream"}};
  const std::string one = sent(
      "GET / HTTP/1.1\nAuthorization: Bearer tenant\nx-api-key: tenant\n"
      "api-key: tenant\nX-Goog-Api-Key: tenant\nA: b\n",
      {.credential = &other});
  CHECK(one.find("tenant") == one.npos);
  CHECK(one.find("X-Api-Key: upstream\r\n") != one.npos);
  CHECK(one.find("A: b\r\n") != one.npos);
  gateway::credential passed;
  CHECK(sent(head, {.credential = &passed}).find("Authorization: Bearer client\r\n") != std::string::npos);
  CHECK(sent(head).find("Authorization: Bearer client\r\n") != std::string::npos);
}

TEST_CASE("gateway: the body's end is told by the gateway", "[gateway][head]") {
  const std::string head = "POST / HTTP/1.1\nHost: g\nContent-Length: 5\n";
  CHECK(sent(head, {.body = {framing::length, 7}}).find("\r\nContent-Length: 7\r\n\r\n") != std::string::npos);
  CHECK(sent(head, {.body = {framing::length, 0}}).find("\r\nContent-Length: 0\r\n\r\n") != std::string::npos);
  CHECK(sent(head, {.body = {framing::chunked, 0}}).find("\r\nTransfer-Encoding: chunked\r\n\r\n") !=
        std::string::npos);
  CHECK(sent(head).find("Content-Length") == std::string::npos);
}

TEST_CASE("gateway: our Via comes behind those of others", "[gateway][head]") {
  CHECK(
      sent("GET / HTTP/1.1\nHost: g\nVia: 1.0 a, 1.1 b\n").ends_with("Via: 1.0 a, 1.1 b\r\nVia: 1.1 canigo-1\r\n\r\n"));
}

TEST_CASE("gateway: an upstream that wants it is told of whom the request is", "[gateway][head]") {
  const std::string head = "GET / HTTP/1.1\nHost: g:80\nForwarded: for=6.6.6.6\nX-Forwarded-For: 6.6.6.6\n";
  CHECK(sent(head, {.forwarded = gateway::client_place{"10.0.0.9", "g:80", true}}) ==
        "GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nForwarded: for=10.0.0.9;host=\"g:80\";proto=https\r\n"
        "X-Forwarded-For: 10.0.0.9\r\nX-Forwarded-Host: g:80\r\nX-Forwarded-Proto: https\r\nVia: 1.1 canigo-1\r\n\r\n");
  CHECK(sent(head, {.forwarded = gateway::client_place{"::1", "g", false}})
            .find("Forwarded: for=\"[::1]\";host=\"g\";proto=http\r\nX-Forwarded-For: ::1\r\n") != std::string::npos);
  CHECK(sent(head, {.forwarded = gateway::client_place{"", "g", false}})
            .find("Forwarded: for=unknown;host=\"g\";proto=http\r\nX-Forwarded-Host: g\r\n") != std::string::npos);
}

TEST_CASE("gateway: a response that is read for its usage comes without compression", "[gateway][head]") {
  CHECK(sent("GET / HTTP/1.1\nHost: g\nAccept-Encoding: gzip, br\naccept-encoding: zstd\n", {.wants_identity = true}) ==
        "GET /v1/x HTTP/1.1\r\nHost: api.example.com\r\nAccept-Encoding: identity\r\nVia: 1.1 canigo-1\r\n\r\n");
}

TEST_CASE("gateway: other responses come as the client accepts them", "[gateway][head]") {
  CHECK(sent("GET / HTTP/1.1\nHost: g\nAccept-Encoding: gzip, br\n").find("\r\nAccept-Encoding: gzip, br\r\n") !=
        std::string::npos);
}

TEST_CASE("gateway: no value begins another field, and none another message", "[gateway][head]") {
  auto text = gateway::head_text::of_response(200, "OK");
  for (const std::string_view bad : {std::string_view{"a\r\nX: y"}, std::string_view{"a\nb"}, std::string_view{"a\rb"},
                                     std::string_view{"a\0b", 3}, std::string_view{"\x01"}, std::string_view{"\x7f"}})
    text.add("X", bad);
  for (const std::string_view bad : {"", "a b", "a:", "a\r\nb", "\xc3\xbc"}) text.add(bad, "x");
  text.add("Good", "caf\xc3\xa9 \t x");
  CHECK(std::move(text).take() == "HTTP/1.1 200 OK\r\nGood: caf\xc3\xa9 \t x\r\n\r\n");
}

TEST_CASE("gateway: a response goes to the client without what is of the upstream's connection", "[gateway][head]") {
  CHECK(response_fields(head_of("HTTP/1.1 200 OK\nServer: x\nConnection: X-Hop\nX-Hop: 1\nKeep-Alive: 5\n"
                                "Transfer-Encoding: chunked\nContent-Length: 5\nTrailer: a\nUpgrade: h2\n"
                                "Proxy-Authenticate: Basic\nX-Canigo-Error: fake\nX-Request-Id: theirs\nAlt-Svc: h3\n"
                                "Set-Cookie: a\nX-Upstream-Request-Id: fake\nSet-Cookie: b\n")) ==
        "Server: x\r\nX-Upstream-Request-Id: theirs\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n");
}

TEST_CASE("gateway: a response tells a second less than its connection may be idle", "[gateway][head]") {
  using namespace std::chrono_literals;
  CHECK(gateway::keep_alive_line(75s) == "Keep-Alive: timeout=74\r\n");
  CHECK(gateway::keep_alive_line(2500ms) == "Keep-Alive: timeout=1\r\n");
  for (const auto idle : {0ms, 999ms, 1'999ms}) CHECK(gateway::keep_alive_line(idle).empty());
  CHECK(gateway::keep_alive_line(24h) == "Keep-Alive: timeout=86399\r\n");
}

TEST_CASE("gateway: a field of a response that would begin another one is left out", "[gateway][head]") {
  gateway::message_head head;
  head.fields = {{"A", "1\r\nB: 2"}, {"C D", "3"}, {"E", "4"}, {"", "5"}, {"F", std::string{"6\0", 2}}};
  CHECK(response_fields(head) == "E: 4\r\n");
}
