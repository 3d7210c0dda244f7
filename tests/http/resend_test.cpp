#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/io_context.hpp>
#include <curl/curl.h>

#include <atomic>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

/// Answers the requests for /warm, all of them together, so that there are as many idle connections afterwards; what it
/// does with another is up to the test.
class breaking_server {
 public:
  explicit breaking_server(unsigned warm, scripted_server::script with_other)
      : warm_{warm}, with_other_{std::move(with_other)}, server_{[this](peer& p) { return serve(p); }} {}

  std::string url(const std::string& path) const { return server_.url(path); }
  const scripted_server& server() const { return server_; }
  int others() const { return others_; }

  /// Leaves so many idle connections behind.
  void warm_up(net::io_context& io, http::client& client) {
    unsigned good = 0;
    for (unsigned i = 0; i < warm_; ++i) {
      client.async_send({url("/warm")}, [&](std::error_code ec, const http::response&) { good += !ec; });
    }
    io.restart();
    io.run();
    REQUIRE(good == warm_);
    REQUIRE(server_.open() == warm_);
  }

 private:
  net::awaitable<void> serve(peer& p) {
    for (;;) {
      const std::string request = co_await p.request();
      if (request.find(" /warm ") == std::string::npos) {
        ++others_;
        co_await with_other_(p);
        co_return;
      }
      ++waiting_;
      while (waiting_ < warm_) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
      co_await p.send(ok("warm"));
    }
  }

  const unsigned warm_;
  scripted_server::script with_other_;
  std::atomic<unsigned> waiting_{0};
  std::atomic<int> others_{0};
  scripted_server server_;
};

net::awaitable<void> hang_up(peer&) { co_return; }

net::awaitable<void> hang_up_hard(peer& p) {
  p.reset();
  co_return;
}

struct ending {
  std::error_code error;
  http::response response;
};

ending send_to_end(net::io_context& io, http::client& client, http::request r) {
  ending o;
  client.async_send(std::move(r), [&](std::error_code ec, http::response got) {
    o.error = ec;
    o.response = std::move(got);
  });
  io.restart();
  io.run();
  return o;
}

}  // namespace

TEST_CASE("a request that may not arrive twice is sent once, whatever becomes of its connection") {
  for (const auto& broken : {scripted_server::script{&hang_up}, scripted_server::script{&hang_up_hard}}) {
    for (const char* method : {"POST", "PATCH", "PROPFIND"}) {
      for (const char* body : {"", "pay"}) {
        breaking_server server{6, broken};
        net::io_context io;
        http::client client{io, {.connections = 8, .proxy = ""}};
        server.warm_up(io, client);
        const auto o = send_to_end(io, client, http::request{method, server.url("/pay")}.with_body(body));
        INFO(method << " " << body);
        CHECK(o.error == http::error::no_response);
        CHECK(server.others() == 1);
        CHECK(o.response.resends == 0);
        CHECK(o.response.reused);
        CHECK(server.server().connections() == 6);  // none was opened to send it over again
      }
    }
  }
}

TEST_CASE("a large body that is cut off is not sent again either") {
  breaking_server server{3, &hang_up};
  net::io_context io;
  http::client client{io, {.connections = 8, .proxy = ""}};
  server.warm_up(io, client);
  const auto o = send_to_end(io, client, http::request{"POST", server.url("/")}.with_body(std::string(8 << 20, 'x')));
  CHECK(o.error.category() == http::error_category());
  CHECK(server.others() == 1);
  CHECK(server.server().connections() == 3);
}

TEST_CASE("a request that may arrive twice is sent once more, over a new connection, and says so") {
  for (const char* method : {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"}) {
    INFO(method);
    SECTION(std::string{"and there it is answered: "} + method) {
      std::atomic<int> seen{0};
      breaking_server server{6, [&](peer& p) -> net::awaitable<void> {
                               if (++seen == 2) co_await p.send("HTTP/1.1 204 No Content\r\n\r\n");
                             }};
      net::io_context io;
      http::client client{io, {.connections = 8, .proxy = ""}};
      server.warm_up(io, client);
      const auto o = send_to_end(io, client, {method, server.url("/")});
      CHECK(!o.error);
      CHECK(o.response.status == 204);
      CHECK(o.response.resends == 1);
      CHECK(server.others() == 2);
      CHECK(server.server().connections() == 7);
    }
    SECTION(std::string{"and no more than once: "} + method) {
      breaking_server server{6, &hang_up};
      net::io_context io;
      http::client client{io, {.connections = 8, .proxy = ""}};
      server.warm_up(io, client);
      const auto o = send_to_end(io, client, {method, server.url("/")});
      CHECK(o.error == http::error::no_response);
      CHECK(o.response.resends == 1);
      CHECK(server.others() == 2);
    }
  }
}

TEST_CASE("a new connection that breaks is no reason to send again") {
  breaking_server server{1, &hang_up};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  for (const char* method : {"GET", "POST"}) {
    const auto o = send_to_end(io, client, {method, server.url("/")});
    CHECK(o.error == http::error::no_response);
    CHECK(o.response.resends == 0);
  }
  CHECK(server.others() == 2);
}

TEST_CASE("what a redirect asks for is not a resend, and is not sent again either") {
  std::atomic<int> moved{0};
  std::atomic<int> arrived{0};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      if (request.find(" /warm ") != std::string::npos) {
        co_await p.send(ok("x"));
      } else if (request.find(" /start ") != std::string::npos) {
        ++moved;
        co_await p.send("HTTP/1.1 307 Temporary Redirect\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n");
      } else {
        ++arrived;
        co_return;
      }
    }
  }};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  REQUIRE(!send_to_end(io, client, {server.url("/warm")}).error);
  const auto o = send_to_end(io, client, http::request{"POST", server.url("/start")}.with_body("pay"));
  CHECK(o.error == http::error::no_response);
  CHECK(moved == 1);
  CHECK(arrived == 1);
  CHECK(o.response.resends == 0);
  CHECK(o.response.redirects == 1);
}

TEST_CASE("behind a redirect, too, a request is sent once more over a new connection") {
  // From 8.22 on, curl tries five idle connections that are dead, one after the other, and then gives up.
  const bool tries_few = curl_version_info(CURLVERSION_NOW)->version_num >= 0x081600;
  for (const unsigned warm : {1u, 3u, tries_few ? 4u : 7u}) {
    std::atomic<int> arrived{0};
    breaking_server server{warm, [&](peer& p) -> net::awaitable<void> {
                             // Only the first of them is for /start, on a connection that breaks at the next.
                             if (++arrived == 1) {
                               co_await p.send("HTTP/1.1 302 Found\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n");
                               co_await p.request();
                               ++arrived;
                             } else if (p.number > warm) {
                               co_await p.send(ok("there"));
                               co_await p.linger();
                             }
                           }};
    net::io_context io;
    http::client client{io, {.connections = 8, .proxy = ""}};
    server.warm_up(io, client);
    const auto o = send_to_end(io, client, {server.url("/start")});
    INFO(warm << " idle ones");
    CHECK(!o.error);
    CHECK(o.response.body == "there");
    CHECK(o.response.redirects == 1);
    CHECK(o.response.resends == 1);
    CHECK_FALSE(o.response.reused);
    CHECK(arrived == 3);
    CHECK(server.server().connections() == warm + 1);
  }
}

TEST_CASE("a server that refuses an expectation has answered") {
  std::atomic<int> seen{0};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      std::string head;
      co_await net::async_read_until(p.socket, net::dynamic_buffer(head), "\r\n\r\n", net::use_awaitable);
      ++seen;
      co_await p.send("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
    }
  }};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  auto post = http::request{"POST", server.url()}.with_body("pay").with_header("Expect", "100-continue");
  const auto o = send_to_end(io, client, std::move(post));
  CHECK(!o.error);
  CHECK(o.response.status == 417);
  CHECK(o.response.resends == 0);
  CHECK(seen == 1);
}

TEST_CASE("a server that has gone since is not taken for one that never had the request") {
  std::atomic<bool> is_gone{false};
  std::atomic<int> arrived{0};
  auto server = std::make_unique<scripted_server>([&](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(ok("x"));
    co_await p.request();
    ++arrived;
    while (!is_gone) co_await net::post(co_await net::this_coro::executor, net::use_awaitable);
  });
  const std::string url = server->url();
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  REQUIRE(!send_to_end(io, client, {url}).error);
  std::error_code error;
  client.async_send({"POST", url}, [&](std::error_code ec, const http::response&) { error = ec; });
  io.restart();
  while (arrived == 0) io.poll();
  server.reset();  // its port refuses connections from now on
  io.run();
  CHECK(error == http::error::no_response);
}

TEST_CASE("each request has its own resend, however many there were before") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    co_await p.request();
    co_await p.send(ok("x"));
    co_await p.request();  // and breaks
  }};
  net::io_context io;
  http::client client{io, {.connections = 1, .proxy = ""}};
  REQUIRE(!send_to_end(io, client, {server.url()}).error);
  for (int i = 0; i < 12; ++i) {
    const auto o = send_to_end(io, client, {server.url()});
    CHECK(!o.error);
    CHECK(o.response.resends == 1);
  }
}

TEST_CASE("a connection that its request asked to close carries no other request") {
  const auto [value, connections] = GENERATE(table<std::string, int>(
      {{"close", 3}, {"CLOSE", 3}, {"x,  close", 3}, {"close,x", 3}, {"keep-alive", 1}, {"closed", 1}, {"", 1}}));
  CAPTURE(value);
  // The server keeps it open, as if it had not read the field.
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, {.connections = 1, .proxy = ""}};
  http::request asks{server.url()};
  asks.headers.add("Connection", value);
  CHECK(!send_to_end(io, client, asks).error);
  CHECK(!send_to_end(io, client, asks).error);
  CHECK(!send_to_end(io, client, {server.url()}).error);
  CHECK(!send_to_end(io, client, {server.url()}).error);
  CHECK(std::cmp_equal(server.connections(), connections));
}
