#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/lengths.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace canigo::detail {

/// A bounded FIFO queue with one owner. Any thread may steal half of its items.
///
/// The owner pushes at the tail. All threads take from the head, by a compare-and-exchange: the owner takes one item, a
/// thief takes half. The owner takes the last item in the same way, so it needs no fence for that item. The owner of a
/// work-stealing stack would need a fence.
///
/// Sources: the ring is that of Go's scheduler (runqput, runqget, runqgrab in runtime/proc.go), which tokio also uses.
/// Its memory orders are those of the thieves in N. M. Lê et al., "Correct and efficient work-stealing for weak memory
/// models", PPoPP 2013: read the end that a CAS moves, then the owner's end (acquire), then the slot, then CAS.
///
/// Why each item is taken exactly once, and is read correctly:
/// - Positions are numbered from 0 in 64 bits. A number never repeats, so a successful CAS of the head proves that the
///   head did not change since it was read. With 32-bit numbers, a thief that sleeps while 2^32 items pass could take a
///   wrong item.
/// - The owner writes a slot (relaxed), then the tail (release). A taker reads the tail (acquire), then the slot. So it
///   reads what was written for this position, or something later.
/// - A taker does not use a value that was written for a later position. The owner reuses a slot only after it has read
///   (acquire) a head beyond the slot, which a CAS (release) wrote. A taker reads the slot before its own CAS. If its
///   own CAS freed the slot, the read happened before the owner's write. If another thread's CAS freed the slot, the
///   taker's CAS fails, and the taker ignores the value. Slots are atomic, because that read would be a data race.
/// - The head is read before the tail (acquire): with a tail older than the head, a full ring could look empty.
class steal_ring {
 public:
  /// Whether the ring is empty. If an item was pushed before the call, and no thread takes it during the call, the
  /// result is false. Any thread may call it.
  bool empty() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) == head;
  }

  /// Whether push() has room for one item. Only the owner may call it.
  bool has_room() const noexcept {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) < ring_length;
  }

  /// Appends an item. Returns false if there is no room. Only the owner may call it. A thief may take and destroy the
  /// item before push() returns.
  bool push(work_item& item) noexcept {
    if (!has_room()) return false;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    slot(tail).store(&item, std::memory_order_relaxed);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// Removes the oldest item and returns it, or nullptr. Only the owner may call it.
  work_item* pop() noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (head == tail_.load(std::memory_order_relaxed)) return nullptr;
      work_item* const item = slot(head).load(std::memory_order_relaxed);
      if (take(head, 1)) return item;
    }
  }

  /// Takes half of the items of `victim`, rounded up. Returns the oldest of them, and stores the others in this ring.
  /// Returns nullptr if `victim` is empty. Only the owner of this ring may call it, and only while this ring is empty.
  work_item* steal_from(steal_ring& victim) noexcept;

 private:
  static_assert(std::has_single_bit(ring_length) && ring_length >= 2);

  /// Tries once to move the head from `head` by `n` positions. If the head has another value, or the CAS fails
  /// spuriously, returns false and sets `head` to the head's present value.
  bool take(std::uint64_t& head, std::uint64_t n) noexcept {
    return head_.compare_exchange_weak(head, head + n, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  atomic<work_item*>& slot(std::uint64_t place) noexcept { return slots_[place % ring_length]; }

  alignas(64) atomic<std::uint64_t> head_{0};
  atomic<std::uint64_t> tail_{0};
  std::array<atomic<work_item*>, ring_length> slots_{};
};

}  // namespace canigo::detail
