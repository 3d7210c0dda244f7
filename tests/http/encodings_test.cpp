#include "canigo/error.hpp"
#include "canigo/http/client.hpp"
#include "canigo/http/exchange.hpp"
#include "canigo/net.hpp"

#include "http/run.hpp"
#include "http/server.hpp"
#include "support/catch.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

using namespace http_test;
using canigo::errc;
using namespace std::string_literals;
namespace http = canigo::http;
namespace net = canigo::net;

namespace {

constexpr std::string_view hello = "hello, hello, hello, hello";
const std::string hello_gzip =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\xd7\x51\xc8\xc0\xa4\x00\x55"
    "\xa3\x82\x77\x1a\x00\x00\x00"s;
const std::string hello_br =
    "\x1b\x19\x00\xf8\x8d\x94\x6e\xde\x44\x09\x52\x86\x96\x6c\x2c\x6f\x31\x4f\x24\xb0\xe3\x00"s;
const std::string hello_zstd =
    "\x28\xb5\x2f\xfd\x20\x1a\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x2c\x20\x01\x00\x4a\x8a\x11"s;

/// A gzip file that says the same byte so many times, by RFC 1951 and 1952: each 13 bits repeat it 258 times.
std::string gzip_of_zeros(std::size_t repeats) {
  std::string file{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", 10};
  std::uint32_t bits = 0;
  int count = 0;
  // The lowest bit of a byte comes first.
  const auto put = [&](std::uint32_t value, int size) {
    bits |= value << count;
    for (count += size; count >= 8; count -= 8, bits >>= 8) file += static_cast<char>(bits & 0xff);
  };
  put(1, 1);           // the last block
  put(1, 2);           // of fixed codes
  put(0b00001100, 8);  // the byte zero, 00110000 with the highest bit first
  for (std::size_t i = 0; i < repeats; ++i) {
    put(0b10100011, 8);  // a length of 258, 11000101
    put(0, 5);           // at a distance of one
  }
  put(0, 7);  // the end
  put(0, 7);  // to the next byte
  const std::uint32_t size = static_cast<std::uint32_t>(1 + repeats * 258);
  std::uint32_t crc = 0xffffffff;
  for (std::uint32_t i = 0; i < size; ++i) {
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
  }
  for (const std::uint32_t number : {crc ^ 0xffffffff, size}) {
    for (int shift = 0; shift < 32; shift += 8) file += static_cast<char>(number >> shift & 0xff);
  }
  return file;
}

std::string encoded(std::string_view encoding, std::string_view body) {
  return ok(body, "Content-Encoding: " + std::string{encoding} + "\r\n");
}

http::client_options decoding(std::size_t max_body = 1 << 20) {
  return {.max_body = max_body, .decode_body = true, .proxy = ""};
}

/// The body by open(), in reads of this size at most. If a read fails, `problem` gets its words.
net::awaitable<std::string> read_by_parts(http::client& client, std::string url, std::size_t part,
                                          std::string* problem = nullptr) {
  http::exchange x = co_await client.open(std::move(url));
  std::string all;
  std::vector<char> room(part);
  try {
    while (const std::size_t n = co_await x.read_some(net::buffer(room))) all.append(room.data(), n);
  } catch (const std::system_error&) {
    if (problem != nullptr) *problem = x.problem();
    throw;
  }
  co_return all;
}

}  // namespace

TEST_CASE("a body is decoded only if the client asks for that") {
  std::string fields;
  scripted_server server{[&](peer& p) -> net::awaitable<void> {
    for (;;) {
      fields = co_await p.request();
      const std::string reply = encoded("gzip", hello_gzip);
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client plain{io, {.proxy = ""}};
  http::client client{io, decoding()};
  CHECK(run_to_end(io, plain.get(server.url())).body == hello_gzip);
  CHECK(fields.find("Accept-Encoding") == std::string::npos);
  const http::response r = run_to_end(io, client.get(server.url()));
  CHECK(r.body == hello);
  CHECK(r.body_size == hello.size());
  CHECK(r.headers.find("Content-Encoding") == std::string_view{"gzip"});
  CHECK(fields.find("\r\nAccept-Encoding: deflate, gzip") != std::string::npos);
  run_to_end(io, client.send(http::request{server.url()}.with_header("Accept-Encoding", "gzip;q=0.5")));
  CHECK(fields.find("\r\nAccept-Encoding: gzip;q=0.5\r\n") != std::string::npos);
  CHECK(fields.find("deflate") == std::string::npos);
}

TEST_CASE("each encoding that is asked for is decoded, whole and by parts") {
  for (const auto& [name, body] :
       {std::pair{"gzip"s, hello_gzip}, std::pair{"br"s, hello_br}, std::pair{"zstd"s, hello_zstd}}) {
    std::string asked;
    scripted_server server{[&](peer& p) -> net::awaitable<void> {
      for (;;) {
        asked = co_await p.request();
        const bool is_asked_for = asked.find(name) != std::string::npos;
        const std::string reply = is_asked_for ? encoded(name, body) : ok(hello);
        co_await p.send(reply);
      }
    }};
    net::io_context io;
    http::client client{io, decoding()};
    CAPTURE(name);
    CHECK(run_to_end(io, client.get(server.url())).body == hello);
    CHECK((name != "gzip" || asked.find("gzip") != std::string::npos));
    for (const auto part : std::initializer_list<std::size_t>{1, 7, 26, 100})
      CHECK(run_to_end(io, read_by_parts(client, server.url(), part)) == hello);
    CHECK(server.connections() == 1);
  }
}

TEST_CASE("the bound on a body counts its decoded bytes") {
  constexpr std::size_t size = 1 + 1000 * 258;
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string reply = encoded("gzip", request.starts_with("GET /short ") ? hello_gzip : gzip_of_zeros(1000));
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client exact{io, decoding(size)};
  CHECK(run_to_end(io, exact.get(server.url())).body == std::string(size, '\0'));
  http::client narrow{io, decoding(size - 1)};
  CHECK(text_of(io, narrow.get(server.url()))
            .starts_with("the body has more than client_options.max_body, 258000 bytes: "));
  CHECK(error_of(io, narrow.get(server.url())) == errc::too_large);
  // Here the encoded body is the longer one.
  http::client tiny{io, decoding(hello.size())};
  CHECK(run_to_end(io, tiny.get(server.url("/short"))).body == hello);
}

TEST_CASE("a body that decodes to much is read by parts while its server waits") {
  constexpr std::size_t repeats = 40'000;
  const std::string file = gzip_of_zeros(repeats);
  const std::string expected(1 + repeats * 258, '\0');
  scripted_server server{answer(encoded("gzip", file))};
  net::io_context io;
  // No read of a connection decodes to as much as this, and the body is far more.
  constexpr std::size_t bound = 3 << 20;
  REQUIRE(expected.size() > 3 * bound);
  http::client client{io, decoding(bound)};
  for (const auto part : std::initializer_list<std::size_t>{50'000, 1'000'000}) {
    CHECK(run_to_end(io, read_by_parts(client, server.url(), part)) == expected);
  }
  CHECK(server.connections() == 1);
}

TEST_CASE("a part of a body that decodes to more than the bound ends the exchange, and says so") {
  scripted_server server{answer(encoded("gzip", gzip_of_zeros(10'000)))};
  net::io_context io;
  http::client client{io, decoding(100'000)};
  std::string problem;
  CHECK(error_of(io, read_by_parts(client, server.url(), 1000, &problem)) == errc::too_large);
  CHECK(behind_host(problem) == "a part of the body decodes to more than client_options.max_body, 100000 bytes");
}

TEST_CASE("a body that is not what its encoding says is an error in words") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      std::string broken = hello_gzip;
      broken[12] ^= 0x55;
      std::string reply = encoded("gzip", broken);
      if (request.starts_with("GET /other ")) reply = encoded("snappy", hello);
      if (request.starts_with("GET /two ")) reply = encoded("gzip", hello_gzip + hello_gzip);
      if (request.starts_with("GET /longer ")) reply = encoded("gzip", hello_gzip + "more");
      if (request.starts_with("GET /br ")) reply = encoded("br", hello_br + "more");
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client client{io, decoding()};
  for (const char* path : {"/", "/other", "/two", "/longer", "/br"}) {
    CAPTURE(path);
    CHECK(error_of(io, client.get(server.url(path))) == http::error::bad_content_encoding);
    const std::string text = text_of(io, client.get(server.url(path)));
    CHECK(text.starts_with("the body can't be decoded: "));
    CHECK(text.find("127.0.0.1") == std::string::npos);
    std::string problem;
    CHECK(error_of(io, read_by_parts(client, server.url(path), 10, &problem)) == http::error::bad_content_encoding);
  }
}

TEST_CASE("an exchange that goes with decoded bytes unread leaves the client as it was") {
  scripted_server server{[](peer& p) -> net::awaitable<void> {
    for (;;) {
      const std::string request = co_await p.request();
      const std::string reply =
          request.starts_with("GET /small ") ? ok("small") : encoded("gzip", gzip_of_zeros(40'000));
      co_await p.send(reply);
    }
  }};
  net::io_context io;
  http::client client{io, decoding(16 << 20)};
  const auto leave = [&](bool stops) -> net::awaitable<int> {
    http::exchange x = co_await client.open(server.url());
    char room[10];
    co_await x.read_some(net::buffer(room));
    const http::response beside = co_await client.get(server.url("/small"));
    CHECK(beside.body == "small");
    if (!stops) co_return 0;
    client.stop();
    co_await x.read_some(net::buffer(room));
    co_return 0;
  };
  run_to_end(io, leave(false));
  CHECK(client.stats().running == 0);
  CHECK(error_of(io, leave(true)) == errc::stopped);
}
