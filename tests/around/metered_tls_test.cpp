// A metered stream below a TLS stream, and above one. A program of its own, as it needs OpenSSL.

#include "canigo/flow.hpp"
#include "canigo/metered_stream.hpp"
#include "canigo/scheduler.hpp"

#include "support/catch.hpp"

#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/ssl.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>

using namespace canigo;

namespace {

using socket_type = net::local::stream_protocol::socket;

/// TLS without certificates: nobody is to be identified here.
net::ssl::context anonymous() {
  net::ssl::context tls{net::ssl::context::tlsv12};
  REQUIRE(::SSL_CTX_set_cipher_list(tls.native_handle(), "AECDH-AES128-SHA:@SECLEVEL=0") == 1);
  return tls;
}

void rethrow(std::exception_ptr e) {
  if (e) std::rethrow_exception(e);
}

constexpr std::size_t plain_size = 300'000;
constexpr std::size_t chunk_size = 4'096;

/// One side sends a text, the other one sends it back.
template <class Client, class Server>
void exchange(net::io_context& io, Client& client, Server& server) {
  const std::string text(plain_size, 't');
  std::string echoed(plain_size, ' ');
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        std::string got(plain_size, ' ');
        co_await net::async_read(server, net::buffer(got), net::use_awaitable);
        co_await net::async_write(server, net::buffer(got), net::use_awaitable);
      },
      rethrow);
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        co_await net::async_write(client, net::buffer(text), net::use_awaitable);
        co_await net::async_read(client, net::buffer(echoed), net::use_awaitable);
      },
      rethrow);
  io.run();
  CHECK(echoed == text);
}

/// Both sides at once.
template <class Client, class Server>
void shake_hands(net::io_context& io, Client& client, Server& server) {
  const auto side = [](auto& s, net::ssl::stream_base::handshake_type t) -> net::awaitable<void> {
    co_await s.async_handshake(t, net::use_awaitable);
  };
  net::co_spawn(io, side(server, net::ssl::stream_base::server), rethrow);
  net::co_spawn(io, side(client, net::ssl::stream_base::client), rethrow);
  io.run();
  io.restart();
}

const scheduler_options plenty{.rate = rate::per_second(1'000'000'000), .burst = 65'536, .initial_tokens = 65'536};

}  // namespace

TEST_CASE("below a TLS stream the bytes of its records take tokens", "[metered_stream]") {
  net::io_context io;
  net::ssl::context tls = anonymous();
  scheduler limit{io, plenty};
  flow written{limit, {}}, read{limit, {}};
  socket_type near{io}, far{io};
  net::local::connect_pair(near, far);
  using metered = metered_stream<socket_type>;
  net::ssl::stream<metered> client{
      metered{std::move(near),
              {.read = {&limit, {.flow = &read}}, .write = {&limit, {.flow = &written}}, .chunk = chunk_size}},
      tls};
  net::ssl::stream<socket_type> server{std::move(far), tls};
  shake_hands(io, client, server);
  const std::uint64_t of_handshake = written.stats().tokens + read.stats().tokens;
  CHECK((of_handshake > 300 && of_handshake < 10'000));
  exchange(io, client, server);
  // Each record of up to 16 KiB has a head, a nonce and a tag.
  for (const flow* f : {&written, &read}) {
    const flow_stats s = f->stats();
    CHECK((s.tokens > plain_size && s.tokens < plain_size + plain_size / 10));
    CHECK(s.granted >= plain_size / chunk_size);
  }
}

TEST_CASE("above a TLS stream its plain bytes take tokens", "[metered_stream]") {
  net::io_context io;
  net::ssl::context tls = anonymous();
  scheduler limit{io, plenty};
  flow written{limit, {}}, read{limit, {}};
  socket_type near{io}, far{io};
  net::local::connect_pair(near, far);
  net::ssl::stream<socket_type> below{std::move(near), tls};
  net::ssl::stream<socket_type> server{std::move(far), tls};
  shake_hands(io, below, server);
  metered_stream<net::ssl::stream<socket_type>&> client{
      below, {.read = {&limit, {.flow = &read}}, .write = {&limit, {.flow = &written}}, .chunk = chunk_size}};
  exchange(io, client, server);
  CHECK(read.stats().tokens == plain_size);
  CHECK(written.stats().tokens >= plain_size);  // what the stream did not take at once was taken again
}
