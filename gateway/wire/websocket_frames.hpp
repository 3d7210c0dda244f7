#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace canigo::gateway {

/// Finds where messages begin in the bytes of one side of a websocket. It changes nothing, and keeps no payload.
///
/// A message begins with a frame of text or data. The frames that continue it, and control frames, belong to none.
/// Source: RFC 6455, 5.2. Allocates: never.
class websocket_frames {
 public:
  /// How many of the bytes may pass before a message begins. The next call has the rest. If it is less than all of
  /// them, a message begins there: it passes once begin() was called.
  std::size_t pass(std::string_view bytes) noexcept;
  /// Lets the message pass that begins now.
  void begin() noexcept { is_let_ = true; }

 private:
  // A head has 2 bytes, up to 8 of a longer length, and 4 of a mask.
  std::array<unsigned char, 14> head_{};
  std::size_t have_ = 0;       // bytes of the head
  std::uint64_t payload_ = 0;  // bytes of the payload that are still to come
  bool is_let_ = false;
};

}  // namespace canigo::gateway
