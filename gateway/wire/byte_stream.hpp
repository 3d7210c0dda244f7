#pragma once

#include "canigo/error.hpp"
#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/generic/stream_protocol.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace asio::ssl {
class context;
}

namespace canigo::gateway {

using stream_socket = net::generic::stream_protocol::socket;

/// A connection of bytes, of TCP or of a unix socket, with TLS or without.
///
/// Errors: errc::timed_out when a limit is over. The operations throw nothing but std::bad_alloc.
/// Threads: those of its loop.
class byte_stream {
 public:
  explicit byte_stream(stream_socket s);
  ~byte_stream();
  byte_stream(const byte_stream&) = delete;
  byte_stream& operator=(const byte_stream&) = delete;

  /// Secures the connection. A client checks that the certificate is that of `host`, which goes out as SNI unless it is
  /// an address.
  net::awaitable<void> secure_as_client(net::ssl::context& context, std::string host, bool is_address, duration limit,
                                        error_code& error);
  /// Why secure_as_client() has failed with this error. For a certificate, the text says what is wrong with it.
  std::string why_not_secured(const error_code& error) const;
  net::awaitable<void> secure_as_server(net::ssl::context& context, duration limit, error_code& error);

  /// Reads what is there, at least one byte. At the end of the stream the error is net::error::eof.
  net::awaitable<std::size_t> read_some(net::mutable_buffer to, duration limit, error_code& error);

  /// Writes what the socket takes at once, which mostly is everything. Returns the rest, for write(); with TLS that is
  /// all. It costs no frame of a coroutine and no way through the loop.
  std::span<net::const_buffer> write_now(std::span<net::const_buffer> pieces, error_code& error) noexcept;
  /// Writes everything. `stall` is the longest time without a byte that the peer takes.
  net::awaitable<void> write(std::span<net::const_buffer> pieces, duration stall, error_code& error);

  /// Ends the sending side alone, so that the peer sees the end and may go on sending. False if the connection has TLS,
  /// which ends both sides at once.
  bool end_sending() noexcept;

  /// Ends the sending side, waits a little for the end of what the peer sends, and closes. A connection that is closed
  /// with unread bytes is reset, and the peer may lose the last answer.
  net::awaitable<void> linger_and_close();

  /// Ends the operations that are on with an error.
  void cancel() noexcept;
  /// Ends the operations that are on with an error, and closes the connection. Idempotent.
  void close() noexcept;
  bool is_open() const noexcept { return socket_.is_open(); }

  /// Reads what has come already, at most what `to` takes. 0 bytes without an error: nothing has come. No other read
  /// may be under way.
  std::size_t read_now(net::mutable_buffer to, error_code& error) noexcept;

  /// Whether nothing has come from the peer since the last message, neither bytes nor an end. No other read may be
  /// under way.
  ///
  /// With TLS, bytes that the TLS engine has read from the socket count, too. If the answer is no, a byte is lost then,
  /// and the connection is of no further use.
  bool is_quiet() noexcept;
  /// Whether nothing lies in the socket, neither bytes nor an end. Loses no byte.
  bool is_socket_quiet() noexcept;

  int descriptor() { return socket_.native_handle(); }
  stream_socket& socket() noexcept { return socket_; }
  /// The subject and the alternative names of the peer's certificate; empty if it showed none.
  std::vector<std::string> peer_names() const;

 private:
  struct tls;

  stream_socket socket_;
  std::unique_ptr<tls> tls_;
};

}  // namespace canigo::gateway
