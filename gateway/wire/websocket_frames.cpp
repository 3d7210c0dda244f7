#include "gateway/wire/websocket_frames.hpp"

#include <algorithm>

namespace canigo::gateway {
namespace {

constexpr unsigned opcode_bits = 0x0f, text_frame = 1, data_frame = 2;
constexpr unsigned mask_bit = 0x80, length_bits = 0x7f, two_bytes = 126, eight_bytes = 127;

bool begins_message(unsigned char first) noexcept {
  const unsigned opcode = first & opcode_bits;
  return opcode == text_frame || opcode == data_frame;
}

/// Returns the length of a frame's head. `second`: the second byte of the head.
std::size_t head_size(unsigned char second) noexcept {
  const unsigned length = second & length_bits;
  const std::size_t more = length == two_bytes ? 2 : length == eight_bytes ? 8 : 0;
  return 2 + more + ((second & mask_bit) != 0 ? 4 : 0);
}

}  // namespace

std::size_t websocket_frames::pass(std::string_view bytes) noexcept {
  std::size_t passed = 0;
  while (passed < bytes.size()) {
    if (payload_ > 0) {
      const std::uint64_t n = std::min<std::uint64_t>(payload_, bytes.size() - passed);
      payload_ -= n;
      passed += static_cast<std::size_t>(n);
      continue;
    }
    const auto next = static_cast<unsigned char>(bytes[passed]);
    if (have_ == 0 && begins_message(next)) {
      if (!is_let_) return passed;
      is_let_ = false;
    }
    head_[have_++] = next;
    ++passed;
    if (have_ < 2 || have_ < head_size(head_[1])) continue;
    const unsigned length = head_[1] & length_bits;
    const std::size_t more = length == two_bytes ? 2 : length == eight_bytes ? 8 : 0;
    payload_ = more == 0 ? length : 0;
    for (std::size_t i = 0; i < more; ++i) payload_ = payload_ << 8 | head_[2 + i];
    have_ = 0;
  }
  return passed;
}

}  // namespace canigo::gateway
