#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Finds where messages begin in the bytes from one side of a websocket. It does not change the bytes, and keeps no
/// payload.
///
/// A message begins with a text frame or a binary frame. Continuation frames and control frames begin no message.
/// Source: RFC 6455, 5.2. Allocates: never.
class websocket_frames {
 public:
  /// Returns how many of the bytes may be passed on: all bytes before the next message begins. Give the remaining bytes
  /// to the next call. If bytes remain, the first of them begins a message: call begin() when this message may be
  /// passed on.
  std::size_t pass(std::string_view bytes) noexcept;
  /// Allows the next message to be passed on. Call it when pass() has stopped before this message.
  void begin() noexcept { is_let_ = true; }

 private:
  // A frame's head has 2 bytes, up to 8 bytes for a long length, and 4 bytes for a mask.
  std::array<unsigned char, 14> head_{};
  std::size_t have_ = 0;       // how many bytes of the present frame's head have come so far
  std::uint64_t payload_ = 0;  // how many bytes of the present frame's payload have not come yet
  bool is_let_ = false;
};

}  // namespace canigo::gateway
