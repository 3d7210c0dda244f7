#pragma once

#include "canigo/detail/base/atomic.hpp"
#include "canigo/detail/context/work_item.hpp"
#include "canigo/detail/stealing/lengths.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace canigo::detail {

/// A bounded FIFO with one owner, from which any thread may take half.
///
/// The owner pushes at the tail. All take from the head, by a compare-and-exchange: the owner one, a thief half. So the
/// owner is a thief like any other, and needs no fence of the kind that the owner of a stack needs for its last item.
///
/// Sources: the ring is that of Go's scheduler (runqput, runqget, runqgrab in runtime/proc.go), which tokio has, too.
/// Its orders are those of the thieves in N. M. Lê et al., "Correct and efficient work-stealing for weak memory
/// models", PPoPP 2013: read the end that moves by CAS, then the owner's end (acquire), then the slot, then CAS.
///
/// Why a taken item is taken once, and is the right one:
/// - Places are numbered from 0 on, in 64 bits. A number never comes again, so a CAS of the head that succeeds proves
///   that the head stood still since it was read. With 32 bits a thief that sleeps for 2^32 items would be deceived.
/// - The owner writes a slot (relaxed), then the tail (release). A taker reads the tail (acquire), then the slot. So it
///   reads at least what was written for this place.
/// - It does not read what was written for a later place: the owner reuses a slot only after it read (acquire) a head
///   beyond it, which a CAS (release) wrote. A taker's read of the slot comes before its own CAS. If that one was the
///   CAS which freed the slot, the read happens before the owner's write. If not, it fails and the read counts for
///   nothing. Slots are atomic, because such a read is a race.
/// - The head is read before the tail (acquire): a tail that is older than the head could make a full ring look empty.
class steal_ring {
 public:
  /// Any thread. An item that is pushed and not taken during the call makes this false.
  bool empty() const noexcept {
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    return tail_.load(std::memory_order_acquire) == head;
  }

  /// The owner: whether push() has room for one.
  bool has_room() const noexcept {
    return tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire) < ring_length;
  }

  /// The owner. False if there is no room. An item that is in may be taken and gone before this returns.
  bool push(work_item& item) noexcept {
    if (!has_room()) return false;
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    slot(tail).store(&item, std::memory_order_relaxed);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  /// The owner: the item that came first, or nullptr.
  work_item* pop() noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);
    for (;;) {
      if (head == tail_.load(std::memory_order_relaxed)) return nullptr;
      work_item* const item = slot(head).load(std::memory_order_relaxed);
      if (take(head, 1)) return item;
    }
  }

  /// The owner of this ring, which is empty: takes half of what `victim` has, the odd one included. Returns the first
  /// of them; the others are in this ring. nullptr if there was nothing.
  work_item* steal_from(steal_ring& victim) noexcept;

 private:
  static_assert(std::has_single_bit(ring_length) && ring_length >= 2);

  /// Moves the head from `head`; if it is elsewhere, `head` becomes that.
  bool take(std::uint64_t& head, std::uint64_t n) noexcept {
    return head_.compare_exchange_weak(head, head + n, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  atomic<work_item*>& slot(std::uint64_t place) noexcept { return slots_[place % ring_length]; }

  alignas(64) atomic<std::uint64_t> head_{0};
  atomic<std::uint64_t> tail_{0};
  std::array<atomic<work_item*>, ring_length> slots_{};
};

}  // namespace canigo::detail
