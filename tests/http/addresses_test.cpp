#include "canigo/http/client.hpp"
#include "canigo/http/public_address.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/ip/address.hpp>

#include <dlfcn.h>
#include <netdb.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

using namespace http_test;
namespace http = canigo::http;
namespace net = canigo::net;
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
