#pragma once

#include "gateway/wire/message.hpp"
#include "gateway/wire/read_buffer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace canigo::gateway {

struct parser_limits {
  std::uint32_t head = 16 << 10;  ///< the max number of bytes in the head
  std::uint64_t body = 64 << 20;  ///< the max number of bytes in the body
  std::size_t fields = 100;       ///< the max number of fields in the head
};

/// Returns the reason phrase of a status in HTTP/1.1.
std::string_view reason_of(int status) noexcept;

/// The reason why a message can't be parsed.
enum class parse_failure : std::uint8_t { none, malformed, head_too_large, body_too_large, target_too_large };

/// Parses one HTTP/1.1 message with the parser of Boost.Beast: first the head, then the body in pieces. The pieces are
/// not copied.
class message_parser {
 public:
  static message_parser of_request(const parser_limits& limits);
  /// `to_head`: whether the method of the request was HEAD, so that the response has no body.
  static message_parser of_response(const parser_limits& limits, bool to_head);
  message_parser(message_parser&& other) noexcept;
  message_parser& operator=(message_parser&& other) noexcept;
  ~message_parser();

  struct step {
    std::span<const char> piece;  ///< a piece of the body; valid until the buffer's next prepare() or shrink()
    bool wants_more = false;      ///< true: the next step needs more bytes in the buffer
  };
  /// Parses up to the end of the head, or to the end of the next piece of the body. Precondition: the message is not
  /// done, and has no failure.
  ///
  /// The step consumes the bytes that it parses. So when is_done() is true, the buffer begins with the first byte after
  /// the message, even if pieces are still in use.
  step read(read_buffer& input);
  /// Call it when the peer has ended the stream. If the body ends with the stream, the message is then done. An
  /// incomplete message becomes malformed.
  void end();

  bool has_begun() const noexcept;
  bool has_head() const noexcept;
  bool is_done() const noexcept;
  parse_failure failure() const noexcept { return failure_; }
  const message_head& head() const noexcept;
  /// Moves the head out of the parser. Call it once. If is_done(), this also frees the parser's memory.
  message_head take_head() noexcept;

  /// has_body(): whether the message has a body. length(): the body's length, if the head contains it. Precondition:
  /// has_head().
  bool has_body() const noexcept;
  std::optional<std::uint64_t> length() const noexcept;
  /// Whether the body ends only when the peer ends the stream.
  bool ends_with_stream() const noexcept;
  /// Returns 10 for HTTP/1.0 and 11 for HTTP/1.1; 0 if the head has not arrived yet.
  int version() const noexcept;
  /// Whether the connection may serve another message after this one.
  bool keep_alive() const noexcept;

 private:
  struct machine;
  struct facts {
    bool has_begun = false;
    bool has_head = false;
    bool done = false;
    bool has_body = false;
    bool ends_with_stream = false;
    bool keeps_alive = false;
    int version = 0;
    std::optional<std::uint64_t> length;
  };
  explicit message_parser(std::unique_ptr<machine> m);
  const facts& known() const noexcept;

  std::unique_ptr<machine> machine_;
  facts last_;  // the facts about the message, copied from machine_ before it is freed
  parse_failure failure_ = parse_failure::none;
};

}  // namespace canigo::gateway
