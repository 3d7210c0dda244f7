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

/// A byte stream over TCP or a unix socket, with or without TLS.
///
/// Errors: errc::timed_out when a time limit is over. The operations throw only std::bad_alloc.
/// Threads: only the thread of its loop.
class byte_stream {
 public:
  explicit byte_stream(stream_socket s);
  ~byte_stream();
  byte_stream(const byte_stream&) = delete;
  byte_stream& operator=(const byte_stream&) = delete;

  /// Starts TLS as a client. It checks that the certificate is for `host`. It sends `host` as SNI, unless it is an
  /// address.
  net::awaitable<void> secure_as_client(net::ssl::context& context, std::string host, bool is_address, duration limit,
                                        error_code& error);
  /// Returns why secure_as_client() has failed with this error. If the certificate is invalid, the text tells the
  /// reason.
  std::string why_not_secured(const error_code& error) const;
  net::awaitable<void> secure_as_server(net::ssl::context& context, duration limit, error_code& error);

  /// Reads at least one byte, and at most what has already arrived. At the end of the stream the error is
  /// net::error::eof.
  net::awaitable<std::size_t> read_some(net::mutable_buffer to, duration limit, error_code& error);

  /// Writes what the socket accepts at once, which is usually everything. Returns the rest, to be passed to write().
  /// With TLS it writes nothing, and returns all pieces. It needs no coroutine frame and no turn of the event loop.
  std::span<net::const_buffer> write_now(std::span<net::const_buffer> pieces, error_code& error) noexcept;
  /// Writes everything. `stall`: the longest time during which the peer may accept no byte.
  net::awaitable<void> write(std::span<net::const_buffer> pieces, duration stall, error_code& error);

  /// Ends the sending side only. The peer sees the end and may continue to send. Returns false if the connection has
  /// TLS, which can only end both sides.
  bool end_sending() noexcept;

  /// Ends the sending side, waits a little for the end of the peer's bytes, and closes. Without that wait, unread bytes
  /// would reset the connection, and the peer might lose the last answer.
  net::awaitable<void> linger_and_close();

  /// Ends the running operations with an error.
  void cancel() noexcept;
  /// Ends the running operations with an error, and closes the connection. Idempotent.
  void close() noexcept;
  bool is_open() const noexcept { return socket_.is_open(); }

  /// Reads the bytes that have already arrived, at most as many as `to` can hold. 0 bytes without an error: none have
  /// arrived. Precondition: no other read is running.
  std::size_t read_now(net::mutable_buffer to, error_code& error) noexcept;

  /// Whether nothing has arrived since the last message: neither bytes nor the end of the stream. Precondition: no
  /// other read is running.
  ///
  /// With TLS it also detects bytes that the TLS engine has already read from the socket. Then one byte is lost, and
  /// the connection can't be used any more.
  bool is_quiet() noexcept;
  /// Whether nothing is in the socket: neither bytes nor the end of the stream. It consumes nothing.
  bool is_socket_quiet() noexcept;

  int descriptor() { return socket_.native_handle(); }
  stream_socket& socket() noexcept { return socket_; }
  /// Returns the subject and the alternative names of the peer's certificate; empty if the peer sent none.
  std::vector<std::string> peer_names() const;

 private:
  struct tls;

  stream_socket socket_;
  std::unique_ptr<tls> tls_;
};

}  // namespace canigo::gateway
