#pragma once

#include "canigo/net.hpp"

#include <asio/buffer.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <string_view>

namespace canigo::gateway {

/// The line that precedes each chunk of a chunked body: the chunk's size in hexadecimal.
class chunk_line {
 public:
  explicit chunk_line(std::size_t size) {
    char* end = std::to_chars(text_.data(), text_.data() + 16, size, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    length_ = static_cast<std::size_t>(end - text_.data());
  }
  net::const_buffer buffer() const noexcept { return {text_.data(), length_}; }

 private:
  std::array<char, 18> text_;
  std::size_t length_;
};

/// Returns a buffer that refers to the characters of `s`. The characters must outlive the buffer.
inline net::const_buffer buffer_of(std::string_view s) noexcept { return {s.data(), s.size()}; }

}  // namespace canigo::gateway
