#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace canigo::gateway {

/// The calls that a pause of their tenant holds back, by class. They stand in no line, so that others go meanwhile.
/// Threads: any.
class held_back {
 public:
  static constexpr std::size_t most_classes = 64;

  /// One of them, from construction to destruction; or none, because as many are there as may be.
  class one {
   public:
    one(held_back& home, int priority, std::uint64_t most) noexcept : home_{home}, at_{index_of(priority)} {
      is_in_ = home_.all_.fetch_add(1, std::memory_order_relaxed) < most;
      if (is_in_) {
        home_.of_[at_].fetch_add(1, std::memory_order_relaxed);
      } else {
        home_.all_.fetch_sub(1, std::memory_order_relaxed);
      }
    }
    ~one() {
      if (!is_in_) return;
      home_.of_[at_].fetch_sub(1, std::memory_order_relaxed);
      home_.all_.fetch_sub(1, std::memory_order_relaxed);
    }
    one(const one&) = delete;
    one& operator=(const one&) = delete;
    explicit operator bool() const noexcept { return is_in_; }

   private:
    held_back& home_;
    const std::size_t at_;
    bool is_in_;
  };

  std::uint64_t all() const noexcept { return all_.load(std::memory_order_relaxed); }
  std::uint64_t of(std::size_t priority) const noexcept {
    return of_[index_of(static_cast<int>(priority))].load(std::memory_order_relaxed);
  }

 private:
  static std::size_t index_of(int priority) noexcept {
    return std::min(static_cast<std::size_t>(std::max(priority, 0)), most_classes - 1);
  }

  std::atomic<std::uint64_t> all_{0};
  std::array<std::atomic<std::uint64_t>, most_classes> of_{};
};

}  // namespace canigo::gateway
