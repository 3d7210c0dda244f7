#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace conversations {

/// 16 digits in hexadecimal.
std::string text_of(std::uint64_t id);
/// The number in the first 16 characters; 0 if they are none.
std::uint64_t id_of(std::string_view text) noexcept;

/// A part of a text without end, whose bytes read as messages of their own: whoever takes a byte of a body for the
/// beginning of a message is seen. Each text is of a request, which it names.
class body_text {
 public:
  enum class kind : std::uint8_t {
    requests,   // "GET /plain/stolen/ID/…" after each 64 bytes
    responses,  // "HTTP/1.1 200 OK", with ID in X-Surplus
  };
  /// `phase`: where in the first message it begins.
  body_text(kind k, std::uint64_t id, std::size_t phase);

  std::string part(std::size_t from, std::size_t size) const;
  /// Whether these are the bytes from there on.
  bool has(std::size_t from, std::string_view bytes) const;

 private:
  void write(std::size_t unit, char* to) const noexcept;

  std::string first_;
  std::size_t number_at_;  // in each message; npos: it has no number
  std::size_t phase_;
};

}  // namespace conversations
