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

/// A response whose body the caller reads part by part: client::open() returns it when the head is there.
///
///     http::exchange x = co_await client.open(url);
///     while (const std::size_t size = co_await x.read_some(net::buffer(room))) use(room, size);
///
/// The body comes no faster than it is read. While the caller does not read, the server has to wait, and the other
/// requests go on. With HTTP/1.1 the client holds 64 KiB at most of such an exchange.
/// With client_options::decode_body the client keeps all bytes that it decodes from one read of the connection. If
/// these are more than max_body, the exchange ends with errc::too_large.
///
/// It takes up one of client_options::connections until the last byte was read. No time limit counts after the head;
/// put one around read_some() if the server may fall silent.
///
/// Cancellation: destroying it before its end resets it at once. Its connection is closed; with HTTP/2 only the stream
/// is.
/// Threads: one at a time, any. It may outlive the client.
/// Copies: none. A moved-from one, like one that was made without an argument, can be assigned to and destroyed only.
class exchange {
 public:
  exchange() noexcept = default;
  exchange(exchange&&) noexcept = default;
  exchange& operator=(exchange&& other) noexcept;
  ~exchange();

  /// Everything but the body: status, fields, the source after redirects, and the times until the first byte. Trailers
  /// and response::redirect are not in it, and timing::total is zero.
  const response& head() const noexcept;

  /// After a read has failed: the same as response::problem.
  const std::string& problem() const noexcept;

  /// Waits for bytes of the body, at least one, and returns how many it has put into `to`. Zero is the end.
  ///
  /// Only one at a time. `to` must stay until it ends.
  /// Errors: those of client, such as error::partial_response, once all bytes before were read; errc::stopped after
  /// client::stop() or the client's end; errc::invalid_argument for a buffer without room. Every read after an error
  /// has the same error.
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
