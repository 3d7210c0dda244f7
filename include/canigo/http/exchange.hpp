#pragma once

#include "canigo/http/request.hpp"
#include "canigo/http/response.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace canigo::http {
namespace detail {
class engine;
class stream;
}  // namespace detail

/// A response whose body the caller reads part by part. client::open() returns it when the head has arrived.
///
///     http::exchange x = co_await client.open(url);
///     while (const std::size_t size = co_await x.read_some(net::buffer(room))) use(room, size);
///
/// The client receives the body only as fast as the caller reads it. While the caller does not read, the server has to
/// wait, and other requests continue. With HTTP/1.1 the client buffers at most 64 KiB for an exchange.
/// With client_options::decode_body the client buffers all bytes that it decodes from one read of the connection. If
/// these exceed max_body, the exchange ends with errc::too_large.
///
/// An exchange occupies one of client_options::connections until the last byte is read. There is no time limit after
/// the head; put a time limit around read_some() if the server may stop sending.
///
/// Cancellation: destroying an unfinished exchange resets it immediately. Its connection is closed; with HTTP/2 only
/// its stream is reset.
/// Threads: one thread at a time. An exchange may outlive the client.
/// Copies: none. A moved-from or default-constructed exchange can only be assigned to and destroyed.
class exchange {
 public:
  exchange() noexcept = default;
  exchange(exchange&&) noexcept = default;
  exchange& operator=(exchange&& other) noexcept;
  ~exchange();

  /// The response without its body: status, header fields, the URL after redirects, and the times until the first byte.
  /// It has no trailers and no response::redirect, and timing::total is zero.
  const response& head() const noexcept;

  /// The description of the error after a read has failed, as in response::problem.
  const std::string& problem() const noexcept;

  /// Waits for at least one byte of the body, and returns how many bytes it has stored in `to`. Zero means the end of
  /// the body.
  ///
  /// Only one call at a time is allowed. `to` must live until the call ends.
  /// Errors: those of client, such as error::partial_response, after all earlier bytes were read; errc::stopped after
  /// client::stop() or the destruction of the client; errc::invalid_argument for an empty buffer. After an error, every
  /// further read fails with the same error.
  /// Cancellation: terminal, partial, total. It resets the whole exchange.
  /// Allocates: the coroutine's frame.
  net::awaitable<std::size_t> read_some(net::mutable_buffer to);

 private:
  friend class client;
  friend class upload;
  static net::awaitable<exchange> open(std::shared_ptr<detail::engine> engine, request r);
  static net::awaitable<exchange> after_head(std::shared_ptr<detail::stream> s);
  explicit exchange(std::shared_ptr<detail::stream> s) noexcept : stream_{std::move(s)} {}

  std::shared_ptr<detail::stream> stream_;
};

}  // namespace canigo::http
