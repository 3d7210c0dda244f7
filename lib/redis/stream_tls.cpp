#include "canigo/error.hpp"

#include "stream.hpp"

#include <asio/error.hpp>
#include <asio/ip/address.hpp>
#include <asio/ssl/context.hpp>
#include <asio/ssl/host_name_verification.hpp>
#include <asio/ssl/stream.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {
namespace {

/// If `ec` is an error, throws stream_failure with the names of the option and of its file.
void check(std::error_code ec, const std::string& option, const std::string& file) {
  if (!ec) return;
  throw stream_failure{errc::invalid_argument, "client_options." + option + " " + file + ": " + ec.message()};
}

net::ssl::context make_context(const tls_settings& tls) {
  std::error_code ec;
  net::ssl::context context{net::ssl::context::tls_client};
  context.set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                      net::ssl::context::no_tlsv1_1);
  if (!tls.ca_file.empty()) {
    context.load_verify_file(tls.ca_file, ec);
    check(ec, "ca_file", tls.ca_file);
  } else {
    context.set_default_verify_paths();
  }
  if (!tls.cert_file.empty()) {
    context.use_certificate_chain_file(tls.cert_file, ec);
    check(ec, "cert_file", tls.cert_file);
    // Without this callback, OpenSSL asks for the password of an encrypted key at the terminal.
    context.set_password_callback([](std::size_t, net::ssl::context::password_purpose) { return std::string{}; });
    const bool is_apart = !tls.key_file.empty();
    const std::string& key_file = is_apart ? tls.key_file : tls.cert_file;
    context.use_private_key_file(key_file, net::ssl::context::pem, ec);
    check(ec, is_apart ? "key_file" : "cert_file", key_file);
  }
  return context;
}

class tls_stream final : public stream {
 public:
  tls_stream(net::ip::tcp::socket s, const std::string& host, const tls_settings& tls)
      : context_{make_context(tls)}, stream_{std::move(s), context_} {
    std::error_code not_an_address;
    net::ip::make_address(host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
    if (tls.verify) {
      stream_.set_verify_mode(net::ssl::verify_peer);
      stream_.set_verify_callback(net::ssl::host_name_verification{host});
    }
    if (tls.cert_file.empty()) SSL_set_cert_cb(stream_.native_handle(), &tls_stream::is_asked, &lacks_certificate_);
  }

  net::awaitable<void> handshake() {
    try {
      co_await stream_.async_handshake(net::ssl::stream_base::client, net::use_awaitable);
    } catch (const std::system_error& e) {
      if (!lacks_certificate_ || e.code() == net::error::operation_aborted) throw;
      throw stream_failure{e.code(), e.code().message() + hint()};
    }
  }
  net::awaitable<std::size_t> read_some(net::mutable_buffer b) override {
    return stream_.async_read_some(b, net::use_awaitable);
  }
  net::awaitable<std::size_t> write_all(net::const_buffer b) override {
    return net::async_write(stream_, b, net::use_awaitable);
  }
  void read_some(net::mutable_buffer b, on_read f) override { stream_.async_read_some(b, std::move(f)); }
  void write_all(net::const_buffer b, on_written f) override { net::async_write(stream_, b, std::move(f)); }
  // Closes without a TLS shutdown: each reply has its own length, so a truncated stream is detected anyway.
  void close() noexcept override {
    std::error_code ignored;
    stream_.lowest_layer().close(ignored);
  }
  // Whether the connection is open. The server may have sent session tickets, so unread bytes are no error.
  bool is_open() noexcept override { return stream::is_open(stream_.lowest_layer().native_handle(), true); }
  std::string hint() const override {
    if (!lacks_certificate_) return {};
    return "; the server asks for a certificate of the client, and client_options.cert_file is empty";
  }

 private:
  /// Called by OpenSSL if the server asks for a certificate and the client has none. The handshake continues, because
  /// the server may accept a client without a certificate.
  static int is_asked(SSL*, void* lacks_certificate) noexcept {
    *static_cast<bool*>(lacks_certificate) = true;
    return 1;
  }

  bool lacks_certificate_ = false;
  net::ssl::context context_;
  net::ssl::stream<net::ip::tcp::socket> stream_;
};

}  // namespace

net::awaitable<std::unique_ptr<stream>> open_tls(net::ip::tcp::socket socket, std::string host,
                                                 const tls_settings& tls) {
  auto s = std::make_unique<tls_stream>(std::move(socket), host, tls);
  co_await s->handshake();
  co_return s;
}

}  // namespace canigo::redis::detail
