#pragma once

#include "canigo/detail/time/deadline.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// Deadlines, a million or more, to the nanosecond: insert and remove in constant time, the earliest first.
///
/// A hierarchical timing wheel over the whole range of time_point: 11 levels of 64 slots, six bits of the instant each.
/// A deadline stands on the level of the highest digit in which it differs from the wheel's reference. So a lower level
/// is always due before a higher one, and inside a level the order is that of the slots. When a slot is due, its nodes
/// move down. A slot remembers its earliest deadline, and the reference jumps there. So a deadline that is alone in its
/// slot comes out without a visit to every level.
///
/// Nodes come out by deadline, then in the order in which they were inserted. A deadline that has passed counts as
/// due at the latest `now` that the wheel was asked about; time that goes backwards stands still.
///
/// Source: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987; placement by the highest
/// differing digit as in tokio's `runtime/time/wheel`.
/// Threads: none; its owner holds a lock. Allocates: never; an empty wheel is 11 KiB.
class timing_wheel {
 public:
  explicit timing_wheel(time_point now) noexcept;
  timing_wheel(const timing_wheel&) = delete;
  timing_wheel& operator=(const timing_wheel&) = delete;

  /// Files a node that is not linked under `when`. O(1).
  void insert(timer_node& node, time_point when) noexcept;

  /// Takes a linked node out. O(1).
  void remove(timer_node& node) noexcept;

  /// Takes out and returns the next node that is due at `now`, or nullptr.
  timer_node* pop(time_point now) noexcept;

  /// The earliest deadline, or a little before: never after it. time_point::max() if there is none.
  ///
  /// Exact unless the earliest of more than 16 deadlines in one slot was removed. Asking pop() at the
  /// instant it names makes progress in any case.
  time_point next() noexcept;

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr unsigned digit_bits = 6;
  static constexpr unsigned slots_per_level = 1u << digit_bits;
  static constexpr unsigned levels = 11;  // the last has four bits left: 16 slots
  static constexpr unsigned due_place = 10 * slots_per_level + 16;

  // The nodes of a slot form a ring that starts at `head`.
  struct slot {
    timer_node* head = nullptr;
    std::uint64_t earliest = 0;  // no node of a slot in use is due before this
  };

  unsigned place_of(std::uint64_t when) const noexcept;
  unsigned first_place() const noexcept;
  void file(timer_node& node) noexcept;
  void descend(unsigned place) noexcept;
  void clear(unsigned place) noexcept;
  void sharpen(unsigned place) noexcept;

  std::uint64_t reference_;  // not after the latest `now`, nor after any deadline
  std::uint64_t now_;        // the latest one
  std::size_t size_ = 0;
  unsigned used_levels_ = 0;
  std::array<std::uint64_t, levels> used_{};
  std::array<std::uint64_t, levels> vague_{};  // the slots that have lost their earliest node
  std::array<slot, due_place + 1> slots_{};    // the last: the nodes that are due at `reference_`
};

}  // namespace canigo::detail
