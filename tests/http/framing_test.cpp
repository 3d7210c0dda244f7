#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>

#include <atomic>
#include <string>
#include <string_view>

using namespace http_test;
using canigo::errc;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

std::error_code error_of_answer(std::string text) {
  scripted_server server{answer(std::move(text))};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  return error_of(io, client.get(server.url()));
}

}  // namespace

TEST_CASE("what a server says before it is asked is not the next answer") {
  const std::string forged = ok("forged");
  for (const std::string& unasked : {forged, forged.substr(0, 1), std::string(20'000, 'x'), forged + forged}) {
    std::atomic<int> said{0};
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.send(ok("first"));
      if (p.number == 1) {
        co_await p.request();
        co_await p.send(ok("second"));
        co_await p.deliver(unasked);
        ++said;
      }
      for (;;) {
        const std::string request = co_await p.request();
        co_await p.send(ok("answer to " + request.substr(0, request.find(' '))));
      }
    }};
    net::io_context io;
    http::client client{io, {.connections_per_host = 1, .proxy = ""}};
    CHECK(run_to_end(io, client.get(server.url())).body == "first");
    const auto second = run_to_end(io, client.get(server.url()));
    CHECK(second.body == "second");
    CHECK(second.reused);
    while (said == 0) std::this_thread::yield();
    // The connection is another one; and as nothing was sent over the old one, this is no resend.
    const auto r = run_to_end(io, client.send(http::request{"POST", server.url()}.with_body("x")));
    CHECK(r.body == "first");
    CHECK(r.resends == 0);
    CHECK_FALSE(r.reused);
    CHECK(server.connections() == 2);
    CHECK(run_to_end(io, client.send(http::request{"PUT", server.url()})).body == "answer to PUT");
  }
}

TEST_CASE("many idle connections with something to say are all passed by") {
  std::atomic<unsigned> asked{0};
  std::atomic<unsigned> said{0};
  constexpr unsigned count = 8;  // more than curl tries again by itself
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    ++asked;
    while (asked < count) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
    co_await p.send(ok("true"));
    if (p.number <= count) {
      co_await p.deliver(ok("forged"));
      ++said;
    }
    for (;;) {
      co_await p.request();
      co_await p.send(ok("true"));
    }
  }};
  net::io_context io;
  http::client client{io, {.connections_per_host = count, .proxy = ""}};
  unsigned good = 0;
  for (unsigned i = 0; i < count; ++i) {
    client.async_send({server.url()}, [&](std::error_code, const http::response& r) { good += r.body == "true"; });
  }
  io.run();
  REQUIRE(good == count);
  while (said < count) std::this_thread::yield();
  for (unsigned i = 0; i < count; ++i) {
    CHECK(run_to_end(io, client.send(http::request{"POST", server.url()})).body == "true");
  }
}

TEST_CASE("what follows an answer in the same breath is not the next one") {
  for (const std::string& head : {std::string{"HTTP/1.1 204 No Content\r\n\r\n"}, ok(""), ok("body"),
                                  std::string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}}) {
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await p.request();
      const std::string more = p.number == 1 ? ok("forged") : "";
      co_await p.send(head + more);
      for (;;) {
        co_await p.request();
        co_await p.send(ok("true"));
      }
    }};
    net::io_context io;
    http::client client{io, {.proxy = ""}};
    run_to_end(io, client.get(server.url()));
    CHECK(run_to_end(io, client.get(server.url())).body != "forged");
  }
}

TEST_CASE("a body whose length is said in two ways is refused, and its connection closed") {
  for (const char* length : {"5\r\nContent-Length: 6", "6\r\nContent-Length: 5", "5, 6", "5 6", "0x5", "-5", "+5", "",
                             "99999999999999999999"}) {
    INFO(length);
    scripted_server server{answer(std::string{"HTTP/1.1 200 OK\r\nContent-Length: "} + length + "\r\n\r\nhello!")};
    net::io_context io;
    http::client client{io, {.proxy = ""}};
    const auto error = error_of(io, client.get(server.url()));
    CHECK((error == http::error::weird_server_reply || error == errc::too_large));
    while (error && server.open() != 0) std::this_thread::yield();
  }
  CHECK_FALSE(error_of_answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05\r\n\r\nhello"));
  // Those of two responses have nothing to do with each other.
  CHECK_FALSE(error_of_answer("HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" + ok("hello")));
}

TEST_CASE("an answer that is not HTTP/1.0, 1.1, 2 or 3, or has no such status, is no answer") {
  for (const char* line :
       {"HTTP/0.9 200 OK", "HTTP/1.2 200 OK", "HTTP/1.1 99 Low", "HTTP/1.1 099 Low", "HTTP/1.1 20 OK",
        "HTTP/1.1 2000 OK", "HTTP/1.1 1000 OK", "HTTP/1.1 -20 OK", "HTTP/1.1 2OO OK", "HTTP/1.1", "HTTP 200 OK",
        " HTTP/1.1 200 OK", "HTTP/11 200 OK", "http/1.1 200 OK", "hello", "HTTP/2 99", "HTTP/1.1\t200 OK", "ICY 200"}) {
    INFO(line);
    CHECK(error_of_answer(std::string{line} + "\r\nContent-Length: 0\r\n\r\n") == http::error::weird_server_reply);
  }
  CHECK_FALSE(error_of_answer("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"));
  CHECK_FALSE(error_of_answer("HTTP/1.1 999 \r\nContent-Length: 0\r\n\r\n"));
  // Nor is what has neither status nor fields.
  scripted_server old{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send("<html>hello</html>");
  }};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  CHECK(error_of(io, client.get(old.url())) == http::error::weird_server_reply);
}

TEST_CASE("a connection that is reset in the middle of an answer is told apart from an answer that is none") {
  for (const char* begin : {"", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"}) {
    INFO(begin);
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      co_await p.request();
      co_await p.deliver(begin);
      p.reset();
    }};
    net::io_context io;
    http::client client{io, {.proxy = ""}};
    CHECK(error_of(io, client.get(server.url())) == http::error::receive_failed);
  }
}

TEST_CASE("a header line beyond all bounds is too large, not a lack of memory") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send("HTTP/1.1 200 OK\r\nA: ");
    const std::string more(64 << 10, 'a');
    for (;;) co_await p.send(more);
  }};
  net::io_context io;
  for (const std::size_t most : {std::size_t{64} << 10, std::size_t{64} << 20}) {
    http::client client{io, {.max_headers = most, .proxy = ""}};
    CHECK(error_of(io, client.get(server.url())) == errc::too_large);
  }
}

TEST_CASE("a server that switches protocols unasked has not answered") {
  const std::string text = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(text + "what is no HTTP");
  }};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  CHECK(error_of(io, client.get(server.url())) == http::error::weird_server_reply);
  auto asked = http::request{server.url()}.with_header("Upgrade", "x").with_header("Connection", "Upgrade");
  CHECK(run_to_end(io, client.send(std::move(asked))).status == 101);
}
