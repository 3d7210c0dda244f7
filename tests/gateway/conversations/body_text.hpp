#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conversations {

/// Returns the id as 16 hexadecimal digits.
std::string text_of(std::uint64_t id);
/// Returns the number in the first 16 characters; 0 if they are no hexadecimal digits.
std::uint64_t id_of(std::string_view text) noexcept;

/// A part of an endless text that consists of valid messages. So a gateway that parses a part of a body as the
/// beginning of a message is detected. Each text belongs to a request, which it names.
class body_text {
 public:
  enum class kind : std::uint8_t {
    requests,   // "GET /plain/stolen/ID/…" after each 64 bytes
    responses,  // "HTTP/1.1 200 OK", with ID in X-Surplus
  };
  /// `phase`: the position in a message at which the text begins.
  body_text(kind k, std::uint64_t id, std::size_t phase);

  std::string part(std::size_t from, std::size_t size) const;
  /// Whether these are the bytes of the text from position `from` on.
  bool has(std::size_t from, std::string_view bytes) const;

 private:
  void write(std::size_t unit, char* to) const noexcept;

  std::string first_;
  std::size_t number_at_;  // the position of the number in each message; npos: the messages have no number
  std::size_t phase_;
};

}  // namespace conversations
