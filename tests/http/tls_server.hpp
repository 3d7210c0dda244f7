#pragma once

#include "http/certificate.hpp"
#include "http/temporary_folder.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <openssl/ssl.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace http_test {

inline asio::awaitable<void> serve_tls(asio::ip::tcp::socket socket, asio::ssl::context& tls) {
  asio::ssl::stream<asio::ip::tcp::socket> stream{std::move(socket), tls};
  co_await stream.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
  std::string text;
  for (;;) {
    const std::size_t n =
        co_await asio::async_read_until(stream, asio::dynamic_buffer(text), "\r\n\r\n", asio::use_awaitable);
    text.erase(0, n);
    constexpr std::string_view reply = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret";
    co_await asio::async_write(stream, asio::buffer(reply.data(), reply.size()), asio::use_awaitable);
  }
}

inline asio::awaitable<void> accept_tls(asio::ip::tcp::acceptor& a, asio::ssl::context& tls) {
  for (;;) {
    auto socket = co_await a.async_accept(asio::use_awaitable);
    asio::co_spawn(a.get_executor(), serve_tls(std::move(socket), tls), asio::detached);
  }
}

/// A TLS server with its own certificate. It runs on the event loop of its client.
class tls_server {
 public:
  explicit tls_server(asio::io_context& io, long certificate_ends_in = 3600)
      : acceptor_{io, {asio::ip::make_address("127.0.0.1"), 0}} {
    make_certificate(folder_ / "key", certificate(), certificate_ends_in);
    tls_.use_private_key_file(folder_ / "key", asio::ssl::context::pem);
    tls_.use_certificate_file(certificate(), asio::ssl::context::pem);
    const auto note = [](SSL*, const unsigned char**, unsigned char*, const unsigned char* in, unsigned size,
                         void* self) {
      static_cast<tls_server*>(self)->offered_.assign(reinterpret_cast<const char*>(in), size);
      return SSL_TLSEXT_ERR_NOACK;
    };
    SSL_CTX_set_alpn_select_cb(tls_.native_handle(), note, this);
    asio::co_spawn(io, accept_tls(acceptor_, tls_), asio::detached);
  }
  /// Demands a certificate from each client, signed by this authority.
  void ask_for_certificate(const std::string& authority) {
    tls_.set_verify_mode(asio::ssl::verify_peer | asio::ssl::verify_fail_if_no_peer_cert);
    tls_.load_verify_file(authority);
  }
  /// The protocols (ALPN) that the last client offered in its handshake, in wire format.
  const std::string& offered() const { return offered_; }
  std::string certificate() const { return folder_ / "certificate"; }
  std::string url(const std::string& host = "localhost") const {
    return "https://" + host + ":" + std::to_string(acceptor_.local_endpoint().port()) + "/";
  }

 private:
  std::string offered_;
  temporary_folder folder_;
  asio::ssl::context tls_{asio::ssl::context::tls_server};
  asio::ip::tcp::acceptor acceptor_;
};

}  // namespace http_test
