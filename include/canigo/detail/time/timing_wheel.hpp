#pragma once

#include "canigo/detail/time/deadline.hpp"
#include "canigo/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// A set of deadlines, a million or more, exact to the nanosecond. Inserting and removing take constant time; the
/// earliest deadline comes out first.
///
/// It is a hierarchical timing wheel over the whole range of time_point: 11 levels of 64 slots. Each level stands for
/// one digit of the instant, and a digit has six bits. The wheel's reference is an instant at or before all deadlines.
/// The highest digit in which a deadline differs from the reference determines the level of the deadline. So a lower
/// level is always due before a higher one, and inside a level the slots are due in order. When a slot is due, its
/// nodes move to lower levels. Each slot stores its earliest deadline, and the reference jumps to that deadline. So a
/// deadline that is alone in its slot comes out without passing through every level.
///
/// Nodes come out by deadline, and for equal deadlines in the order of insertion. A deadline in the past counts as due
/// at the latest `now` that pop() has got. If pop() gets an earlier `now` than that, it uses the latest one instead.
///
/// Source: G. Varghese, T. Lauck, "Hashed and hierarchical timing wheels", SOSP 1987; placement by the highest
/// differing digit as in tokio's `runtime/time/wheel`.
/// Threads: not thread-safe; its owner must hold a lock. Allocates: never; an empty wheel takes 11 KiB.
class timing_wheel {
 public:
  explicit timing_wheel(time_point now) noexcept;
  timing_wheel(const timing_wheel&) = delete;
  timing_wheel& operator=(const timing_wheel&) = delete;

  /// Inserts an unlinked node with the deadline `when`. O(1).
  void insert(timer_node& node, time_point when) noexcept;

  /// Removes a linked node. O(1).
  void remove(timer_node& node) noexcept;

  /// Removes and returns the next node that is due at `now`; nullptr if no node is due.
  timer_node* pop(time_point now) noexcept;

  /// The earliest deadline, or an instant shortly before it, but never after it. time_point::max() if there is no
  /// deadline.
  ///
  /// The result may be too early if the earliest deadline of a slot was removed, and more than 16 deadlines were left
  /// in that slot. In this case pop() returns nullptr at the returned instant, and the next call of next() returns a
  /// later instant.
  time_point next() noexcept;

  bool empty() const noexcept { return size_ == 0; }
  std::size_t size() const noexcept { return size_; }

 private:
  static constexpr unsigned digit_bits = 6;
  static constexpr unsigned slots_per_level = 1u << digit_bits;
  static constexpr unsigned levels = 11;  // the last level has four bits: 16 slots
  static constexpr unsigned due_place = 10 * slots_per_level + 16;

  // The nodes of a slot form a ring that starts at `head`.
  struct slot {
    timer_node* head = nullptr;
    std::uint64_t earliest = 0;  // if the slot has nodes: a lower bound on their deadlines
  };

  unsigned place_of(std::uint64_t when) const noexcept;
  unsigned first_place() const noexcept;
  void file(timer_node& node) noexcept;
  void descend(unsigned place) noexcept;
  void clear(unsigned place) noexcept;
  void sharpen(unsigned place) noexcept;

  std::uint64_t reference_;  // an instant at or before now_ and all deadlines; the slot of a deadline depends on it
  std::uint64_t now_;        // the latest `now` that the constructor or pop() got
  std::size_t size_ = 0;
  unsigned used_levels_ = 0;
  std::array<std::uint64_t, levels> used_{};
  std::array<std::uint64_t, levels> vague_{};  // for each level, bits of slots whose `earliest` may be too early
  std::array<slot, due_place + 1> slots_{};    // the last slot has the nodes that are due at `reference_`
};

}  // namespace canigo::detail
