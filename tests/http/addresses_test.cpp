#include "canigo/http/client.hpp"
#include "canigo/http/public_address.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "http/temporary_folder.hpp"
#include "support/catch.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/ip/address.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <netdb.h>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;
using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {
constexpr const char* two_addresses = "two-addresses.test";
}

/// The C library's, which knows a name with two addresses more.
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (name == nullptr || std::string_view{name} != two_addresses) return real(name, service, hints, found);
  addrinfo* second = nullptr;
  if (const int failed = real("127.0.0.1", service, hints, &second)) return failed;
  if (const int failed = real("127.0.0.2", service, hints, found)) {
    ::freeaddrinfo(second);
    return failed;
  }
  addrinfo* last = *found;
  while (last->ai_next != nullptr) last = last->ai_next;
  last->ai_next = second;
  return 0;
}

TEST_CASE("where nobody is at a name's first address the second is tried") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, {.proxy = ""}};
  const std::string url = std::string{"http://"} + two_addresses + ":" + std::to_string(server.port()) + "/";
  for (int i = 0; i < 2; ++i) {
    const auto r = run_to_end(io, client.get(url));
    CHECK(r.body == "x");
    CHECK(r.reused == (i == 1));
  }
}

TEST_CASE("where a name's first address does not answer the second has the rest of the time") {
  scripted_server server{answer(ok("x"))};
  const full_port silent{"127.0.0.2", server.port()};
  net::io_context io;
  http::client client{io, {.connect_timeout = 4s, .proxy = ""}};
  const std::string url = std::string{"http://"} + two_addresses + ":" + std::to_string(server.port()) + "/";
  CHECK(run_to_end(io, client.get(url)).body == "x");
}

TEST_CASE("an address that the client refuses is not connected to, and is named") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  http::client client{io, {.proxy = "", .allow_address = &http::is_public}};
  const std::string port = ":" + std::to_string(server.port()) + "/";
  for (const auto& host : {"127.0.0.1"s, "localhost"s, "[::ffff:127.0.0.1]"s, "2130706433"s, "0x7f.1"s}) {
    CAPTURE(host);
    CHECK(error_of(io, client.get("http://" + host + port)) == http::error::address_refused);
  }
  CHECK(text_of(io, client.get("http://" + ("127.0.0.1" + port))) ==
        "client_options.allow_address refuses 127.0.0.1: The client does not connect to the server's address");
  CHECK(server.connections() == 0);
}

TEST_CASE("a client may be told the address of a host") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const auto at = request.find("Host: ");
      const std::string reply = ok(request.substr(at, request.find("\r\n", at) - at));
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  const std::uint16_t port = server.port();
  http::client client{io,
                      {.proxy = "",
                       .known_addresses = {{"the-host.invalid", port, net::ip::make_address("127.0.0.1")},
                                           {"six.invalid", port, net::ip::make_address("::1")},
                                           {"two.invalid", port, net::ip::make_address("127.0.0.2")},
                                           {"two.invalid", port, net::ip::make_address("127.0.0.1")}}}};
  const std::string rest = ":" + std::to_string(port);
  for (int i = 0; i < 2; ++i) {
    CHECK(run_to_end(io, client.get("http://the-host.invalid" + rest + "/")).body == "Host: the-host.invalid" + rest);
    CHECK(run_to_end(io, client.get("http://TWO.invalid" + rest + "/")).body == "Host: TWO.invalid" + rest);
  }
  CHECK(error_of(io, client.get("http://six.invalid" + rest + "/")) == http::error::could_not_connect);
  CHECK(error_of(io, client.get("http://the-host.invalid:1/")) == http::error::could_not_resolve_host);
  http::client careful{io,
                       {.proxy = "",
                        .known_addresses = {{"the-host.invalid", port, net::ip::make_address("127.0.0.1")}},
                        .allow_address = &http::is_public}};
  CHECK(error_of(io, careful.get("http://the-host.invalid" + rest + "/")) == http::error::address_refused);
}

TEST_CASE("a client may speak to a Unix socket, under any host") {
  const temporary_folder folder;
  const std::string path = folder / "socket";
  net::io_context io;
  net::local::stream_protocol::acceptor acceptor{io, path};
  std::string asked;
  const auto serve = [&]() -> net::awaitable<void> {
    auto socket = co_await acceptor.async_accept(net::use_awaitable);
    for (;;) {
      std::string request;
      co_await net::async_read_until(socket, net::dynamic_buffer(request), "\r\n\r\n", net::use_awaitable);
      asked = request;
      const std::string reply = ok("by path");
      co_await net::async_write(socket, net::buffer(reply), net::use_awaitable);
    }
  };
  net::co_spawn(io, serve(), net::detached);
  const auto ask = [&](http::client& client, std::string url) {
    std::optional<std::pair<std::error_code, http::response>> end;
    client.async_send({std::move(url)}, [&](std::error_code ec, http::response r) { end = {ec, std::move(r)}; });
    while (!end) io.run_one();
    return *std::move(end);
  };
  http::client client{io, {.unix_socket = path, .allow_address = &http::is_public}};
  for (int i = 0; i < 3; ++i) {
    const auto [error, response] = ask(client, "http://docker/containers");
    CHECK_FALSE(error);
    CHECK(response.body == "by path");
    CHECK(response.reused == (i > 0));
    CHECK(asked.find("Host: docker\r\n") != std::string::npos);
  }
  http::client other{io, {.unix_socket = path + "-none"}};
  CHECK(ask(other, "http://docker/").first == http::error::could_not_connect);
}

TEST_CASE("an address behind a redirect is judged, too, and so is each new connection") {
  scripted_server inside{answer(ok("secret"))};
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    const std::string other = "http://127.0.0.2:" + std::to_string(inside.port()) + "/";
    for (;;) {
      const std::string request = co_await p.request();
      const std::string reply = request.starts_with("GET /in ")
                                    ? "HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + other + "\r\n\r\n"
                                    : ok("x");
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  std::vector<std::string> asked;
  const auto allow = [&](const net::ip::address& a) {
    asked.push_back(a.to_string());
    return asked.back() == "127.0.0.1";
  };
  http::client client{io, {.proxy = "", .allow_address = allow}};
  CHECK(run_to_end(io, client.get(server.url())).body == "x");
  CHECK(run_to_end(io, client.get(server.url())).reused);
  CHECK(asked == std::vector{"127.0.0.1"s});
  CHECK(error_of(io, client.get(server.url("/in"))) == http::error::address_refused);
  CHECK(asked == std::vector{"127.0.0.1"s, "127.0.0.2"s});
  const auto open = [&]() -> net::awaitable<int> { co_return (co_await client.open(server.url("/in"))).head().status; };
  CHECK(error_of(io, open()) == http::error::address_refused);
  CHECK(inside.connections() == 0);
  CHECK(run_to_end(io, client.get(server.url())).body == "x");
}

TEST_CASE("where one address of a name is refused the next one is tried") {
  scripted_server server{answer(ok("x"))};
  net::io_context io;
  const std::string url = std::string{"http://"} + two_addresses + ":" + std::to_string(server.port()) + "/";
  http::client client{io, {.proxy = "", .allow_address = [](const net::ip::address& a) {
                             return a == net::ip::make_address("127.0.0.1");
                           }}};
  CHECK(run_to_end(io, client.get(url)).body == "x");
  // An allowed address where nobody is: the refusal of the other one is not the cause.
  http::client other{io, {.proxy = "", .allow_address = [](const net::ip::address& a) {
                            return a == net::ip::make_address("127.0.0.2");
                          }}};
  CHECK(error_of(io, other.get(url)) == http::error::could_not_connect);
  http::client broken{
      io, {.proxy = "", .allow_address = [](const net::ip::address&) -> bool { throw std::runtime_error{"no"}; }}};
  CHECK(error_of(io, broken.get(url)) == http::error::address_refused);
}
