#pragma once

#include "canigo/http/exchange.hpp"
#include "canigo/http/request.hpp"
#include "canigo/net.hpp"

#include <asio/awaitable.hpp>
#include <asio/buffer.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace canigo::http {

/// A request whose body the caller writes part by part. client::start_upload() returns it.
///
///     http::upload u = client.start_upload({"PUT", url}, file_size);
///     while (const std::size_t size = read(file, room)) {
///       if (!co_await u.write(net::buffer(room, size))) break;  // the server has answered already
///     }
///     http::exchange x = co_await u.finish();
///
/// The body is sent only as fast as the server reads it, because the client buffers at most 64 KiB. While the caller
/// does not write, other requests continue.
///
/// The request is sent at the first write. With HTTP/1.1 a body of unknown length is sent in chunks. The client can't
/// repeat the body, so it sends the request only once, even a PUT, and follows no redirect.
///
/// The timeout of the request covers the time until the server begins to read the body, and the time from finish() to
/// the head of the response. There is no time limit in between; put one around write() if the server may stop reading.
///
/// Cancellation: destroying an upload before finish() resets it immediately. Its connection is closed; with HTTP/2 only
/// its stream is reset. So no server takes a part of a body for the whole.
/// Threads: one thread at a time. An upload may outlive the client.
/// Copies: none. A moved-from or default-constructed upload can only be assigned to and destroyed.
class upload {
 public:
  upload() noexcept = default;
  upload(upload&&) noexcept = default;
  upload& operator=(upload&& other) noexcept;
  ~upload();

  /// Waits until the client has taken at least one byte of `from`, and returns how many bytes it has taken. Zero: the
  /// server has already answered and reads no more; finish() returns that answer. Its status is 300 or more, or any
  /// status if the server closed the connection after the answer.
  ///
  /// Only one call at a time is allowed. `from` must live until the call ends.
  /// Errors: those of client; errc::stopped after client::stop() or the destruction of the client;
  /// errc::invalid_argument for an empty buffer, and for more bytes than announced. After an error of the client, every
  /// further write fails with the same error.
  /// Cancellation: terminal, partial, total. A cancellation resets the whole upload.
  /// Allocates: the coroutine's frame.
  net::awaitable<std::size_t> write_some(net::const_buffer from);

  /// Like write_some(), but writes all of `from`, which may be empty. Returns false if the server has already answered
  /// and reads no more.
  net::awaitable<bool> write(net::const_buffer from);

  /// Ends the body, and waits for the head of the response.
  ///
  /// Errors: those of client::open(); errc::invalid_argument if fewer bytes were written than announced. After
  /// errc::invalid_argument the upload is unchanged. The exception is a std::system_error whose text has the details,
  /// like that of client::open().
  /// Cancellation: terminal, partial, total. A cancellation resets the whole upload.
  /// Allocates: the coroutine's frame.
  net::awaitable<exchange> finish();

  /// The description of the error after a write has failed, as in response::problem.
  const std::string& problem() const noexcept;

 private:
  friend class client;
  upload(std::shared_ptr<detail::engine> engine, request r, std::optional<std::uint64_t> length);
  explicit upload(std::shared_ptr<detail::stream> s) noexcept : stream_{std::move(s)} {}

  std::shared_ptr<detail::stream> stream_;
};

}  // namespace canigo::http
