#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Finds the beginnings of messages in the bytes from one side of a websocket. It does not change the bytes, and keeps
/// no payload.
///
/// A message begins with a text or a binary frame. Continuation frames and control frames begin no message.
/// Source: RFC 6455, 5.2. Allocates: never.
class websocket_frames {
 public:
  /// Returns how many of the bytes come before the next beginning of a message. Pass the rest to the next call. If the
  /// result is less than the number of bytes, a message begins there: it passes after begin() was called.
  std::size_t pass(std::string_view bytes) noexcept;
  /// Lets the message pass that begins at the current byte.
  void begin() noexcept { is_let_ = true; }

 private:
  // A frame's head has 2 bytes, up to 8 bytes for a long length, and 4 bytes for a mask.
  std::array<unsigned char, 14> head_{};
  std::size_t have_ = 0;       // the number of bytes of the head so far
  std::uint64_t payload_ = 0;  // the number of bytes of the payload that are still to come
  bool is_let_ = false;
};

}  // namespace canigo::gateway
