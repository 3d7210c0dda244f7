#pragma once

#include "canigo/net.hpp"

#include <asio/buffer.hpp>

#include <array>
#include <cstddef>

namespace canigo::detail {

/// The first bytes of a buffer sequence, itself a buffer sequence: up to 16 buffers, as one system call takes.
template <class Buffer>
class buffer_prefix {
 public:
  static constexpr std::size_t most = 16;

  using value_type = Buffer;
  using const_iterator = const Buffer*;

  void add(const Buffer& b) noexcept { items_[size_++] = b; }
  bool is_full() const noexcept { return size_ == most; }
  const Buffer* begin() const noexcept { return items_.data(); }
  const Buffer* end() const noexcept { return items_.data() + size_; }

 private:
  std::array<Buffer, most> items_;
  std::size_t size_ = 0;
};

/// Empty buffers are left out.
template <class Buffer, class Buffers>
buffer_prefix<Buffer> prefix_of(const Buffers& buffers, std::size_t bytes) {
  buffer_prefix<Buffer> prefix;
  const auto last = net::buffer_sequence_end(buffers);
  for (auto i = net::buffer_sequence_begin(buffers); i != last && bytes != 0 && !prefix.is_full(); ++i) {
    const Buffer part = net::buffer(Buffer(*i), bytes);
    if (part.size() == 0) continue;
    prefix.add(part);
    bytes -= part.size();
  }
  return prefix;
}

}  // namespace canigo::detail
