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
  std::uint32_t head = 16 << 10;  ///< bytes of the head
  std::uint64_t body = 64 << 20;  ///< bytes of the body
  std::size_t fields = 100;       ///< the most fields of the head
};

/// The words that go with a status in HTTP/1.1.
std::string_view reason_of(int status) noexcept;

/// Why a message can't be read.
enum class parse_failure : std::uint8_t { none, malformed, head_too_large, body_too_large, target_too_large };

/// Reads one HTTP/1.1 message from bytes: its head, then its body in pieces, without a copy. The parser is Beast's.
class message_parser {
 public:
  static message_parser of_request(const parser_limits& limits);
  /// `to_head`: the request was HEAD, so the response has no body.
  static message_parser of_response(const parser_limits& limits, bool to_head);
  message_parser(message_parser&& other) noexcept;
  message_parser& operator=(message_parser&& other) noexcept;
  ~message_parser();

  struct step {
    std::span<const char> piece;  ///< a piece of the body; good until the buffer's next prepare() or shrink()
    bool wants_more = false;      ///< the next step needs more input
  };
  /// Takes one step: to the end of the head, or to the next piece of the body. Call it while the message is not done
  /// and has no failure.
  ///
  /// The step consumes what it reads. So when is_done() is true, the buffer begins with the first byte behind the
  /// message, whatever has become of the pieces.
  step read(read_buffer& input);
  /// Call it when the peer has ended the stream, which may end the message.
  void end();

  bool has_begun() const noexcept;
  bool has_head() const noexcept;
  bool is_done() const noexcept;
  parse_failure failure() const noexcept { return failure_; }
  const message_head& head() const noexcept;
  /// Moves the head out. Call it once. If is_done(), this also frees the parser's memory.
  message_head take_head() noexcept;

  /// Whether the message has a body, and the body's length if the head tells it. Ask only after has_head().
  bool has_body() const noexcept;
  std::optional<std::uint64_t> length() const noexcept;
  /// Whether the body ends with the stream.
  bool ends_with_stream() const noexcept;
  /// 10 or 11; 0 before the head is there.
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
  facts last_;  // the facts of the message, after machine_ was freed
  parse_failure failure_ = parse_failure::none;
};

}  // namespace canigo::gateway
