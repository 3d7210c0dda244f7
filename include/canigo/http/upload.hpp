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

/// A request whose body the caller writes part by part: client::start_upload() returns it.
///
///     http::upload u = client.start_upload({"PUT", url}, file_size);
///     while (const std::size_t size = read(file, room)) {
///       if (!co_await u.write(net::buffer(room, size))) break;  // the server has answered already
///     }
///     http::exchange x = co_await u.finish();
///
/// The body goes no faster than the server takes it, because the client keeps 64 KiB of it at most. While the caller
/// does not write, the other requests go on.
///
/// It is sent at the first write. A body of unknown length goes out in chunks with HTTP/1.1. No part can be sent again,
/// so the request is sent once, also by PUT, and no redirect is followed.
///
/// The timeout of the request counts until the server begins to take the body, and then from finish() to the head. No
/// time limit counts in between; put one around write() if the server may fall silent.
///
/// Cancellation: destroying it before finish() resets it at once. Its connection is closed; with HTTP/2 only the stream
/// is. So no server takes a part of a body for the whole.
/// Threads: one at a time, any. It may outlive the client.
/// Copies: none. A moved-from one, like one that was made without an argument, can be assigned to and destroyed only.
class upload {
 public:
  upload() noexcept = default;
  upload(upload&&) noexcept = default;
  upload& operator=(upload&& other) noexcept;
  ~upload();

  /// Waits until the client has taken bytes of `from`, at least one, and returns how many. Zero: the server has
  /// answered already and takes no more; finish() has its answer. The status of that answer is 300 or more, or any
  /// status if the server has closed the connection after it.
  ///
  /// Only one at a time. `from` must stay until it ends.
  /// Errors: those of client; errc::stopped after client::stop() or the client's end; errc::invalid_argument for no
  /// bytes, and for more than the length that was announced. Every write after an error of a client has the same error.
  /// Cancellation: terminal, partial, total. It resets the whole upload.
  /// Allocates: the coroutine's frame.
  net::awaitable<std::size_t> write_some(net::const_buffer from);

  /// Like write_some(), for all of `from`, and for no bytes. False: the server has answered already, and takes no more.
  net::awaitable<bool> write(net::const_buffer from);

  /// Ends the body, and waits for the head of the response.
  ///
  /// Errors: those of client::open(), thrown the same way; errc::invalid_argument for fewer bytes than the length that
  /// was announced. In this case nothing has happened.
  /// Cancellation: terminal, partial, total. It resets the whole upload.
  /// Allocates: the coroutine's frame.
  net::awaitable<exchange> finish();

  /// After a write has failed: the same as response::problem.
  const std::string& problem() const noexcept;

 private:
  friend class client;
  upload(std::shared_ptr<detail::engine> engine, request r, std::optional<std::uint64_t> length);
  explicit upload(std::shared_ptr<detail::stream> s) noexcept : stream_{std::move(s)} {}

  std::shared_ptr<detail::stream> stream_;
};

}  // namespace canigo::http
