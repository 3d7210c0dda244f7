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

/// Counts the kept bytes of the request bodies of all connections.
class kept_bytes {
 public:
  explicit kept_bytes(std::uint64_t most) : most_{most} {}
  /// Whether `n` more bytes may be kept. If so, they are counted until give_back().
  bool take(std::uint64_t n) noexcept {
    if (now_.fetch_add(n, std::memory_order_relaxed) + n <= most_.load(std::memory_order_relaxed)) return true;
    give_back(n);
    return false;
  }
  bool has_room(std::uint64_t n) const noexcept { return now() + n <= most_.load(std::memory_order_relaxed); }
  /// Counts `n` bytes, even if that exceeds the limit.
  void add(std::uint64_t n) noexcept { now_.fetch_add(n, std::memory_order_relaxed); }
  void give_back(std::uint64_t n) noexcept { now_.fetch_sub(n, std::memory_order_relaxed); }
  /// Changes the max number of kept bytes. Bytes that are already kept stay, even if they exceed it.
  void set_most(std::uint64_t most) noexcept { most_.store(most, std::memory_order_relaxed); }
  std::uint64_t now() const noexcept { return now_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> most_;
  std::atomic<std::uint64_t> now_{0};
};

/// The body of a request. It reads a piece from the client when the piece is asked for.
///
/// The bytes read so far are kept up to a limit, so that the body can be sent again. A longer body is not kept, and
/// can't be sent again. Bytes that were read ahead are kept until they have been given out.
class request_body {
 public:
  enum class status : std::uint8_t { good, interrupted, client_failed, timed_out, malformed, too_large };

  /// `input`: contains the bytes that came with the head; further bytes are read into it.
  request_body(byte_stream& client, message_parser& parser, read_buffer& input, duration idle, std::uint64_t most_kept,
               kept_bytes& all_kept)
      : client_{client}, parser_{parser}, input_{input}, idle_{idle}, most_kept_{most_kept}, all_kept_{all_kept} {}
  ~request_body() { all_kept_.give_back(kept_.size()); }
  request_body(const request_body&) = delete;
  request_body& operator=(const request_body&) = delete;

  /// Call it if the client waits for "100 Continue" before it sends the body.
  void expect_continue() noexcept { continues_ = true; }

  /// Returns the next piece, which is valid until the next call. Empty at the end of the body, and after an error.
  net::awaitable<std::span<const char>> next();
  /// Stores the next pieces that have already arrived in `to`, as many as fit. Returns their number. They are valid
  /// until the next call.
  std::size_t next_now(std::span<std::span<const char>> to);
  /// Whether the whole body has been given out.
  bool is_given_out() const noexcept { return parser_.is_done() && sent_ == kept_.size(); }

  /// Reads up to `most` bytes and one piece before anything is sent. It reads less if the limit on all kept bytes is
  /// reached. Afterwards next() begins with these bytes.
  net::awaitable<void> read_ahead(std::uint64_t most);
  /// Like read_ahead(), but takes only bytes that have already arrived. Returns false if read_ahead() would read more.
  bool read_ahead_now(std::uint64_t most);
  /// The bytes that were read ahead, and whether they are the whole body.
  std::string_view ahead() const noexcept { return kept_; }
  bool is_all_ahead() const noexcept { return parser_.is_done() && kept_.size() == read_; }
  /// Replaces the bytes that were read ahead by another text. Precondition: is_all_ahead().
  void replace(std::string text);

  /// Makes next() begin at the start of the body again. Precondition: can_repeat().
  void rewind() noexcept { sent_ = 0; }
  bool can_repeat() const noexcept { return is_replaced_ || kept_.size() == read_; }

  /// Continues after a cancellation of the client's stream. No byte is lost by the cancellation.
  void resume() noexcept {
    if (status_ == status::interrupted) status_ = status::good;
  }
  status state() const noexcept { return status_; }
  /// Whether the client has sent the whole body, and none of it is left in `input`.
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
  std::size_t sent_ = 0;    // the number of bytes of kept_ that were given out since the last rewind()
  std::uint64_t read_ = 0;  // the number of bytes of the body read so far
  bool keeps_ = true;
  bool continues_ = false;
  bool is_ahead_ = false;     // read_ahead() is running, so no byte may be dropped
  bool is_replaced_ = false;  // kept_ is the text given to replace()
  status status_ = status::good;
};

}  // namespace canigo::gateway
