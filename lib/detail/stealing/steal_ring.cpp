#include "canigo/detail/stealing/steal_ring.hpp"

namespace canigo::detail {

work_item* steal_ring::steal_from(steal_ring& victim) noexcept {
  const std::uint64_t first = tail_.load(std::memory_order_relaxed);
  // This load with memory_order_acquire ensures that the thread which emptied this ring has finished reading the ring's
  // slots. So the slots can be overwritten.
  static_cast<void>(head_.load(std::memory_order_acquire));
  std::uint64_t head = victim.head_.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t there = victim.tail_.load(std::memory_order_acquire) - head;
    if (there == 0) return nullptr;
    if (there > ring_length) {  // if other threads have taken items after `head` was read, `head` is too old
      head = victim.head_.load(std::memory_order_acquire);
      continue;
    }
    const std::uint64_t n = there - there / 2;
    work_item* const item = victim.slot(head).load(std::memory_order_relaxed);
    for (std::uint64_t i = 1; i < n; ++i) {
      slot(first + i - 1).store(victim.slot(head + i).load(std::memory_order_relaxed), std::memory_order_relaxed);
    }
    if (!victim.take(head, n)) continue;
    if (n > 1) tail_.store(first + n - 1, std::memory_order_release);
    return item;
  }
}

}  // namespace canigo::detail
