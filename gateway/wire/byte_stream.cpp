#include "gateway/wire/byte_stream.hpp"

#include "canigo/cancel_after.hpp"

#include <asio/redirect_error.hpp>
#include <asio/ssl.hpp>
#include <asio/use_awaitable.hpp>
#include <openssl/x509v3.h>

#include <array>
#include <chrono>
#include <string>
#include <sys/socket.h>

namespace canigo::gateway {
namespace {

using namespace std::chrono_literals;

auto within(duration limit, error_code& error) {
  return canigo::cancel_after(limit, net::redirect_error(net::use_awaitable, error));
}

/// Returns the pieces that remain after the first `n` bytes were written.
std::span<net::const_buffer> without(std::span<net::const_buffer> pieces, std::size_t n) {
  while (!pieces.empty() && n >= pieces.front().size()) {
    n -= pieces.front().size();
    pieces = pieces.subspan(1);
  }
  if (!pieces.empty()) pieces.front() += n;
  return pieces;
}

/// Joins the first pieces into one text if several of them fit into one TLS record; otherwise returns an empty text.
std::string joined(std::span<const net::const_buffer> pieces) {
  constexpr std::size_t most = 16 << 10;  // the max length of a TLS record (RFC 8446, 5.1)
  std::size_t n = 0;
  std::size_t size = 0;
  while (n < pieces.size() && size + pieces[n].size() <= most) size += pieces[n++].size();
  std::string all;
  if (n < 2) return all;
  all.reserve(size);
  for (const net::const_buffer& b : pieces.first(n)) all.append(static_cast<const char*>(b.data()), b.size());
  return all;
}

}  // namespace

struct byte_stream::tls {
  tls(stream_socket& s, net::ssl::context& c) : stream(s, c) {}
  net::ssl::stream<stream_socket&> stream;
};

byte_stream::byte_stream(stream_socket s) : socket_(std::move(s)) {}
byte_stream::~byte_stream() = default;

net::awaitable<void> byte_stream::secure_as_client(net::ssl::context& context, std::string host, bool is_address,
                                                   duration limit, error_code& error) {
  tls_ = std::make_unique<tls>(socket_, context);
  auto& s = tls_->stream;
  SSL* const ssl = s.native_handle();
  const bool is_set = is_address
                          ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str()) == 1
                          : SSL_set1_host(ssl, host.c_str()) == 1 && SSL_set_tlsext_host_name(ssl, host.c_str()) == 1;
  if (!is_set) {
    error = net::error::invalid_argument;
    co_return;
  }
  // By RFC 9525, the host name is compared only with the SANs of the certificate, and a wildcard must be a whole label.
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  s.set_verify_mode(net::ssl::verify_peer);
  co_await s.async_handshake(net::ssl::stream_base::client, within(limit, error));
}

net::awaitable<void> byte_stream::secure_as_server(net::ssl::context& context, duration limit, error_code& error) {
  tls_ = std::make_unique<tls>(socket_, context);
  co_await tls_->stream.async_handshake(net::ssl::stream_base::server, within(limit, error));
}

std::string byte_stream::why_not_secured(const error_code& error) const {
  // X509_V_OK may also mean that the peer sent no certificate. Then the message of `error` is returned.
  const long verified = SSL_get_verify_result(tls_->stream.native_handle());
  if (verified != X509_V_OK) return X509_verify_cert_error_string(verified);
  return error.message();
}

net::awaitable<std::size_t> byte_stream::read_some(net::mutable_buffer to, duration limit, error_code& error) {
  if (!tls_) co_return co_await socket_.async_read_some(to, within(limit, error));
  const std::size_t n = co_await tls_->stream.async_read_some(to, within(limit, error));
  // A TLS stream that ends without the TLS close message causes an error. Without this error, a truncated message of
  // unknown length, which lasts until the end of the stream, would seem complete; see relay().
  if (error == net::ssl::error::stream_truncated) error = net::error::connection_reset;
  co_return n;
}

net::awaitable<void> byte_stream::write(std::span<net::const_buffer> pieces, duration stall, error_code& error) {
  pieces = write_now(pieces, error);
  while (!pieces.empty() && !error) {
    std::size_t n = 0;
    if (tls_) {
      // OpenSSL makes a TLS record from each buffer, and sends one record at a time. So small buffers are joined first.
      const std::string record = joined(pieces);
      const net::const_buffer next = record.empty() ? pieces.front() : net::buffer(record);
      n = co_await tls_->stream.async_write_some(next, within(stall, error));
    } else {
      n = co_await socket_.async_write_some(pieces, within(stall, error));
    }
    if (error) co_return;
    pieces = without(pieces, n);
  }
}

std::span<net::const_buffer> byte_stream::write_now(std::span<net::const_buffer> pieces, error_code& error) noexcept {
  error = {};
  pieces = without(pieces, 0);
  if (tls_ || pieces.empty()) return pieces;
  std::size_t n = 0;
  if (!socket_.non_blocking()) socket_.non_blocking(true, error);
  if (!error) n = socket_.write_some(pieces, error);
  if (error == net::error::would_block || error == net::error::try_again) error = {};
  return without(pieces, n);
}

bool byte_stream::end_sending() noexcept {
  if (tls_) return false;
  error_code ignored;
  socket_.shutdown(stream_socket::shutdown_send, ignored);
  return true;
}

net::awaitable<void> byte_stream::linger_and_close() {
  error_code error;
  if (!socket_.is_open()) co_return;
  if (tls_) {
    // This call also waits for the peer's TLS close message.
    co_await tls_->stream.async_shutdown(within(1s, error));
  }
  socket_.shutdown(stream_socket::shutdown_send, error);
  std::array<char, 4096> unread;
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!error && std::chrono::steady_clock::now() < end) {
    co_await socket_.async_read_some(net::buffer(unread), within(5s, error));
  }
  close();
}

void byte_stream::cancel() noexcept {
  error_code ignored;
  socket_.cancel(ignored);
}

void byte_stream::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

std::size_t byte_stream::read_now(net::mutable_buffer to, error_code& error) noexcept {
  error = {};
  std::size_t n = 0;
  if (!socket_.non_blocking()) socket_.non_blocking(true, error);
  if (!error) n = tls_ ? tls_->stream.read_some(to, error) : socket_.read_some(to, error);
  if (error == net::error::would_block || error == net::error::try_again) error = {};
  return n;
}

bool byte_stream::is_quiet() noexcept {
  if (!tls_) return is_socket_quiet();
  char byte;
  error_code error;
  return read_now(net::buffer(&byte, 1), error) == 0 && !error;
}

bool byte_stream::is_socket_quiet() noexcept {
  char byte;
  const auto n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

std::vector<std::string> byte_stream::peer_names() const {
  std::vector<std::string> names;
  if (!tls_) return names;
  const std::unique_ptr<X509, decltype([](X509* p) { X509_free(p); })> shown{
      SSL_get1_peer_certificate(const_cast<tls&>(*tls_).stream.native_handle())};
  if (!shown) return names;
  const std::unique_ptr<BIO, decltype([](BIO* p) { BIO_free(p); })> text{BIO_new(BIO_s_mem())};
  X509_NAME_print_ex(text.get(), X509_get_subject_name(shown.get()), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  names.emplace_back(data, static_cast<std::size_t>(size));
  const std::unique_ptr<GENERAL_NAMES, decltype([](GENERAL_NAMES* p) { GENERAL_NAMES_free(p); })> others{
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(shown.get(), NID_subject_alt_name, nullptr, nullptr))};
  for (int i = 0; others && i < sk_GENERAL_NAME_num(others.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(others.get(), i);
    if (name->type != GEN_DNS && name->type != GEN_URI) continue;
    const ASN1_STRING* value = name->d.ia5;
    names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                       static_cast<std::size_t>(ASN1_STRING_length(value)));
  }
  return names;
}

}  // namespace canigo::gateway
