#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace canigo::gateway {

/// Counts, by class, the calls of an upstream that wait outside of its queue. Such a call waits for the limit that all
/// instances share, for a tunnel, for money of a budget, or for the delay before a retry. A call that waits for the
/// shared limit or for money of a target holds a permit of this instance's limit meanwhile.
///
/// Threads: any.
class outside_waits {
 public:
  static constexpr std::size_t most_classes = 64;

  void enter(int priority, bool has_place) noexcept {
    of_[index_of(priority)].fetch_add(1, std::memory_order_relaxed);
    if (has_place) with_place_.fetch_add(1, std::memory_order_relaxed);
  }
  void leave(int priority, bool has_place) noexcept {
    of_[index_of(priority)].fetch_sub(1, std::memory_order_relaxed);
    if (has_place) with_place_.fetch_sub(1, std::memory_order_relaxed);
  }

  std::uint64_t of(std::size_t priority) const noexcept {
    return of_[index_of(static_cast<int>(priority))].load(std::memory_order_relaxed);
  }
  std::uint64_t all() const noexcept {
    std::uint64_t n = 0;
    for (const auto& c : of_) n += c.load(std::memory_order_relaxed);
    return n;
  }
  std::uint64_t with_place() const noexcept { return with_place_.load(std::memory_order_relaxed); }

 private:
  static std::size_t index_of(int priority) noexcept {
    return std::min(static_cast<std::size_t>(std::max(priority, 0)), most_classes - 1);
  }

  std::array<std::atomic<std::uint64_t>, most_classes> of_{};
  std::atomic<std::uint64_t> with_place_{0};
};

}  // namespace canigo::gateway
