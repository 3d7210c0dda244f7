#pragma once

#include "canigo/net.hpp"
#include "canigo/time.hpp"

#include "gateway/wire/byte_stream.hpp"
#include "gateway/wire/message_parser.hpp"
#include "gateway/wire/read_buffer.hpp"

#include <asio/awaitable.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace canigo::gateway {

/// Counts the bytes that are kept in memory for the request bodies of all connections.
class kept_bytes {
 public:
  explicit kept_bytes(std::uint64_t most) : most_{most} {}
  /// Returns whether `n` more bytes may be kept. If so, counts them until give_back().
  bool take(std::uint64_t n) noexcept {
    if (now_.fetch_add(n, std::memory_order_relaxed) + n <= most_.load(std::memory_order_relaxed)) return true;
    give_back(n);
    return false;
  }
  bool has_room(std::uint64_t n) const noexcept { return now() + n <= most_.load(std::memory_order_relaxed); }
  /// Counts `n` bytes, even if that exceeds the limit.
  void add(std::uint64_t n) noexcept { now_.fetch_add(n, std::memory_order_relaxed); }
  void give_back(std::uint64_t n) noexcept { now_.fetch_sub(n, std::memory_order_relaxed); }
  /// Changes the max number of kept bytes. Bytes that are already kept stay, even if they exceed the new number.
  void set_most(std::uint64_t most) noexcept { most_.store(most, std::memory_order_relaxed); }
  std::uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> most_;
  std::atomic<std::uint64_t> now_{0};
};

/// The body of a request. It reads a piece from the client only when a caller asks for the piece.
///
/// The bytes read so far are kept up to a limit, so that the body can be sent again. A longer body is not kept, and
/// can't be sent again. Bytes that were read ahead are kept until next() or next_now() has returned them.
class request_body {
 public:
  enum class status : std::uint8_t { good, interrupted, client_failed, timed_out, malformed, too_large };

  /// `input`: the buffer that contains the bytes that came together with the head. Further bytes are read into this
  /// buffer.
  request_body(byte_stream& client, message_parser& parser, read_buffer& input, duration idle, std::uint64_t most_kept,
               kept_bytes& all_kept)
      : client_{client}, parser_{parser}, input_{input}, idle_{idle}, most_kept_{most_kept}, all_kept_{all_kept} {}
  ~request_body() { all_kept_.give_back(kept_.size()); }
  request_body(const request_body&) = delete;
  request_body& operator=(const request_body&) = delete;

  /// Call it if the client waits for "100 Continue" before it sends the body. The first read then sends this response.
  void expect_continue() noexcept { continues_ = true; }

  /// Returns the next piece, which is valid until the next call. The result is empty at the end of the body, and after
  /// an error.
  net::awaitable<std::span<const char>> next();
  /// Stores the next pieces in `to`, as many as have already arrived and fit. Returns the number of pieces. They are
  /// valid until the next call.
  std::size_t next_now(std::span<std::span<const char>> to);
  /// Whether next() or next_now() has returned the whole body.
  bool is_given_out() const noexcept { return parser_.is_done() && sent_ == kept_.size(); }

  /// Reads about `most` bytes before any of the body is sent to the upstream; the last piece may exceed `most`. Reads
  /// less if the bytes kept for the bodies of all connections reach their limit. Afterwards next() begins with these
  /// bytes.
  net::awaitable<void> read_ahead(std::uint64_t most);
  /// Like read_ahead(), but takes only bytes that have already arrived. Returns false if read_ahead() would read more
  /// bytes.
  bool read_ahead_now(std::uint64_t most);
  /// Returns the bytes that were read ahead; is_all_ahead() tells whether they are the whole body.
  std::string_view ahead() const noexcept { return kept_; }
  bool is_all_ahead() const noexcept { return parser_.is_done() && kept_.size() == read_; }
  /// Replaces the whole body, which was read ahead, by another text. Precondition: is_all_ahead().
  void replace(std::string text);

  /// Makes next() begin at the start of the body again. Precondition: can_repeat().
  void rewind() noexcept { sent_ = 0; }
  bool can_repeat() const noexcept { return is_replaced_ || kept_.size() == read_; }

  /// Makes reads possible again after a read of the client's stream was cancelled. A cancellation loses no byte.
  void resume() noexcept {
    if (status_ == status::interrupted) status_ = status::good;
  }
  status state() const noexcept { return status_; }
  /// Whether the client has sent the whole body, and the parser has taken all of it out of `input`.
  bool is_read() const noexcept { return parser_.is_done(); }
  bool has_failed() const noexcept { return status_ != status::good && status_ != status::interrupted; }
  std::uint64_t bytes() const noexcept { return read_; }

 private:
  bool is_short_of(std::uint64_t most) const noexcept;
  std::span<const char> piece_now();
  void drop_kept() noexcept;
  net::awaitable<void> read_more();
  void keep(std::span<const char> piece);

  byte_stream& client_;
  message_parser& parser_;
  read_buffer& input_;
  const duration idle_;
  const std::uint64_t most_kept_;
  kept_bytes& all_kept_;
  std::string kept_;
  std::size_t sent_ = 0;    // how many bytes of kept_ next() and next_now() have returned since the last rewind()
  std::uint64_t read_ = 0;  // how many bytes of the body were read so far
  bool keeps_ = true;
  bool continues_ = false;
  bool is_ahead_ = false;     // read_ahead() is running, so every byte must be kept
  bool is_replaced_ = false;  // kept_ is the text given to replace()
  status status_ = status::good;
};

}  // namespace canigo::gateway
