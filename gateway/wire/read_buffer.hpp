#pragma once

#include "canigo/net.hpp"

#include <asio/buffer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>

namespace canigo::gateway {

/// Holds bytes that were read and are not consumed yet. prepare() may enlarge its memory; shrink() may reduce it.
class read_buffer {
 public:
  std::span<const char> unread() const noexcept { return {data_.get() + begin_, end_ - begin_}; }
  bool empty() const noexcept { return begin_ == end_; }
  std::size_t size() const noexcept { return end_ - begin_; }
  /// Consumes `n` bytes. They stay readable at the same address until prepare() or shrink().
  void consume(std::size_t n) noexcept {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  }

  /// Returns free space after the unread bytes. The unread bytes and the space together have at most `most` bytes; the
  /// space is empty if there are already that many unread bytes.
  net::mutable_buffer prepare(std::size_t most) {
    if (capacity_ < most) {
      std::unique_ptr<char[]> larger{new char[most]};
      if (!empty()) std::memcpy(larger.get(), data_.get() + begin_, size());
      data_ = std::move(larger);
      capacity_ = most;
      end_ = size();
      begin_ = 0;
    } else if (begin_ > 0) {
      std::memmove(data_.get(), data_.get() + begin_, size());
      end_ = size();
      begin_ = 0;
    }
    return {data_.get() + end_, std::max(most, end_) - end_};
  }
  void commit(std::size_t n) noexcept { end_ += n; }

  /// Frees the memory that the unread bytes do not need. Memory of up to `keep` bytes is kept, because the next read
  /// will soon need it.
  void shrink(std::size_t keep = 0) {
    if (capacity_ <= std::max(keep, size())) return;
    std::unique_ptr<char[]> smaller{empty() ? nullptr : new char[size()]};
    if (!empty()) std::memcpy(smaller.get(), data_.get() + begin_, size());
    data_ = std::move(smaller);
    capacity_ = end_ = size();
    begin_ = 0;
  }

 private:
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace canigo::gateway
