#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/upstream/exchange.hpp"
#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/chunk_line.hpp"
#include "gateway/wire/request_body.hpp"

#include <asio/any_io_executor.hpp>
#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <span>

namespace canigo::gateway {

/// Whether the rest of `body` can't be read from the client. Returns false if `body` is null, which means that the
/// request has no body.
bool has_failed(const request_body* body) noexcept;

/// The first bytes of a request: its head, and the part of its body that is already in memory. So a small body is sent
/// in the same system call as the head.
class request_beginning {
 public:
  explicit request_beginning(exchange& x);
  request_beginning(const request_beginning&) = delete;
  request_beginning& operator=(const request_beginning&) = delete;

  std::span<net::const_buffer> pieces() noexcept { return {pieces_.data(), count_}; }
  /// Whether pieces() contains a part of the body.
  bool has_body() const noexcept { return has_body_; }
  /// Whether pieces() contains the end of the body, so that nothing is left to send.
  bool is_whole() const noexcept { return is_whole_; }

 private:
  static constexpr std::size_t most_pieces = 4;

  void add(net::const_buffer b) noexcept { pieces_[count_++] = b; }

  std::array<net::const_buffer, most_pieces + 4> pieces_;
  std::size_t count_ = 0;
  std::optional<chunk_line> line_;
  bool has_body_ = false;
  bool is_whole_ = false;
};

/// Sends the body of a request to the upstream while the exchange reads the response.
class upload {
 public:
  /// `x` and `to` must outlive the upload. Its coroutine runs on `executor`.
  upload(exchange& x, byte_stream& to, const net::any_io_executor& executor);
  upload(const upload&) = delete;
  upload& operator=(const upload&) = delete;

  /// Call it when the write of `first` has ended. `is_sent`: whether this write had no error. If `is_sent` is true,
  /// begins to send the rest of the body.
  void begin_after(const request_beginning& first, bool is_sent);
  /// Whether a part of the body is being sent.
  bool is_on() const noexcept { return is_on_; }
  /// Whether the whole body was sent. False if the request has no body.
  bool is_complete() const noexcept { return is_complete_; }
  /// Returns when the upload ended.
  time_point over_at() const noexcept { return over_at_; }

  /// Waits until the upload has ended, or until the deadline of the exchange. Then sets the exchange's `has_lost_rest`:
  /// whether the upstream did not take the rest of the body. Call it only while is_on().
  net::awaitable<void> await_rest();
  /// Stops the upload, and waits until its coroutine has ended, because that coroutine refers to the exchange.
  net::awaitable<void> finish();

 private:
  net::awaitable<void> send_body();

  exchange& x_;
  byte_stream& to_;
  net::steady_timer ended_;  // is cancelled when the upload ends
  time_point over_at_ = time_point::min();
  bool is_on_ = false;
  bool is_complete_ = false;
  bool is_stopped_ = false;
};

}  // namespace canigo::gateway
