#pragma once

#include "canigo/detail/context/asio_sockets.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/endpoint.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>
#include <asio/ip/tcp.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

namespace canigo::redis::detail {

class link;

/// The completion handlers of a link's read and write.
struct on_read {
  std::shared_ptr<link> owner;
  void operator()(std::error_code ec, std::size_t n) const noexcept;
};
struct on_written {
  std::shared_ptr<link> owner;
  void operator()(std::error_code ec, std::size_t n) const noexcept;
};

/// A connected socket of any kind. Coroutines make the connection. Later operations use functions as handlers, because
/// a coroutine for each read would be too expensive.
class stream {
 public:
  stream() = default;
  virtual ~stream() = default;
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  virtual net::awaitable<std::size_t> read_some(net::mutable_buffer b) = 0;
  virtual net::awaitable<std::size_t> write_all(net::const_buffer b) = 0;
  virtual void read_some(net::mutable_buffer b, on_read f) = 0;
  virtual void write_all(net::const_buffer b, on_written f) = 0;
  virtual void close() noexcept = 0;
  /// Whether the connection is still open. Each call of this function costs a system call.
  virtual bool is_open() noexcept = 0;
  /// If the connection fails, this text is added to the error's text. "" if there is nothing to add.
  virtual std::string hint() const { return {}; }

 protected:
  /// Whether the connection of this socket is still open. If `may_have_data` is false, this function also returns false
  /// if the socket has unread bytes.
  static bool is_open(int socket, bool may_have_data) noexcept;
};

struct tls_settings {
  bool verify = true;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
};

/// The error of a connection that could not be made. Its text gives more details than the error code.
class stream_failure : public std::system_error {
 public:
  stream_failure(std::error_code ec, std::string text) : std::system_error{ec}, text_{std::move(text)} {}
  /// The complete text of the error. It replaces the message of the error code.
  const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

/// Connects to a host, or to the endpoint's unix socket if it has one. Throws std::system_error, or stream_failure.
net::awaitable<std::unique_ptr<stream>> open_stream(const endpoint& e, endpoint::address a, const tls_settings& tls);

/// Does the TLS handshake. This function is in its own object file, because it needs OpenSSL.
net::awaitable<std::unique_ptr<stream>> open_tls(net::ip::tcp::socket socket, std::string host,
                                                 const tls_settings& tls);

}  // namespace canigo::redis::detail
