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

  /// Starts TLS as a client. Checks that the peer's certificate is for `host`. Sends `host` as SNI, unless it is an IP
  /// address.
  net::awaitable<void> secure_as_client(net::ssl::context& context, std::string host, bool is_address, duration limit,
                                        error_code& error);
  /// Returns the reason why secure_as_client() failed with `error`. If the peer's certificate is invalid, the text says
  /// what is wrong with it.
  std::string why_not_secured(const error_code& error) const;
  net::awaitable<void> secure_as_server(net::ssl::context& context, duration limit, error_code& error);

  /// Waits for bytes, and reads what has arrived: at least one byte, at most the size of `to`. At the end of the stream
  /// the error is net::error::eof.
  net::awaitable<std::size_t> read_some(net::mutable_buffer to, duration limit, error_code& error);

  /// Writes as many bytes as the socket accepts without a wait, usually all. Returns the unwritten pieces; pass them to
  /// write(). With TLS, this function writes nothing, and returns all pieces. It needs no coroutine frame, and it
  /// returns without a turn of the event loop.
  std::span<net::const_buffer> write_now(std::span<net::const_buffer> pieces, error_code& error) noexcept;
  /// Writes everything. Fails if the peer accepts no byte for the time `stall`.
  net::awaitable<void> write(std::span<net::const_buffer> pieces, duration stall, error_code& error);

  /// Ends only the sending side. The peer sees the end, and may continue to send. If the connection uses TLS, does
  /// nothing and returns false, because both sides of a TLS connection can only be ended together.
  bool end_sending() noexcept;

  /// Ends the sending side, waits a little until the peer has stopped sending, and closes the connection. Without this
  /// wait, unread bytes would reset the connection, and the peer might lose the last answer.
  net::awaitable<void> linger_and_close();

  /// Makes the running operations end with an error.
  void cancel() noexcept;
  /// Makes the running operations end with an error, and closes the connection. Further calls have no effect.
  void close() noexcept;
  bool is_open() const noexcept { return socket_.is_open(); }

  /// Reads bytes that have already arrived, at most the size of `to`. A result of 0 without an error means that no byte
  /// has arrived. Precondition: no other read is running.
  std::size_t read_now(net::mutable_buffer to, error_code& error) noexcept;

  /// Whether nothing has arrived since the last message: neither a byte nor the end of the stream. Precondition: no
  /// other read is running.
  ///
  /// With TLS, the function also finds bytes that the TLS engine has already read from the socket. If there are such
  /// bytes, one of them is lost, and the connection can't be used any more.
  bool is_quiet() noexcept;
  /// Whether the socket holds nothing: neither bytes nor the end of the stream. Consumes nothing.
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
