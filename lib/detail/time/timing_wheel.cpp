#include "canigo/detail/time/timing_wheel.hpp"

#include "canigo/detail/base/bits.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

namespace canigo::detail {
namespace {

// Instants are stored as unsigned numbers in the same order: time_point::min() becomes 0.
constexpr std::uint64_t sign_bit = std::uint64_t{1} << 63;

constexpr std::uint64_t key(time_point t) noexcept {
  return static_cast<std::uint64_t>(t.time_since_epoch().count()) ^ sign_bit;
}

constexpr time_point instant(std::uint64_t key) noexcept {
  return time_point{duration{static_cast<std::int64_t>(key ^ sign_bit)}};
}

}  // namespace

timing_wheel::timing_wheel(time_point now) noexcept : reference_(key(now)), now_(reference_) {}

void timing_wheel::insert(timer_node& node, time_point when) noexcept {
  assert(!node.linked());
  node.when_ = std::max(key(when), now_);
  file(node);
  ++size_;
}

void timing_wheel::remove(timer_node& node) noexcept {
  assert(node.linked());
  const unsigned place = node.place_;
  slot& s = slots_[place];
  node.place_ = timer_node::nowhere;
  --size_;
  if (node.next_ == &node) {
    clear(place);
    return;
  }
  node.previous_->next_ = node.next_;
  node.next_->previous_ = node.previous_;
  if (s.head == &node) s.head = node.next_;
  if (s.earliest == node.when_) vague_[place / slots_per_level] |= bit(place);
}

timer_node* timing_wheel::pop(time_point now) noexcept {
  now_ = std::max(now_, key(now));
  while (size_ != 0) {
    const unsigned place = first_place();
    const slot& s = slots_[place];
    if (s.earliest > now_) {
      // The reference time of the wheel stays before the time span of this slot. So the nodes can stay in the slot
      // until the first of them is due.
      const unsigned shift = place / slots_per_level * digit_bits;
      reference_ = std::max(reference_, std::min(now_, (s.earliest >> shift << shift) - 1));
      return nullptr;
    }
    if (place < slots_per_level || place == due_place) {
      timer_node* node = s.head;  // all nodes of this slot have the same deadline, so no other node is due earlier
      remove(*node);
      return node;
    }
    descend(place);
  }
  reference_ = now_;
  return nullptr;
}

time_point timing_wheel::next() noexcept {
  if (size_ == 0) return time_point::max();
  const unsigned place = first_place();
  if (vague_[place / slots_per_level] & bit(place)) [[unlikely]]
    sharpen(place);
  return instant(slots_[place].earliest);
}

unsigned timing_wheel::place_of(std::uint64_t when) const noexcept {
  if (when == reference_) return due_place;
  const unsigned highest_bit = 63 - static_cast<unsigned>(std::countl_zero(when ^ reference_));
  const unsigned level = highest_bit / digit_bits;
  return level * slots_per_level + (when >> level * digit_bits) % slots_per_level;
}

unsigned timing_wheel::first_place() const noexcept {
  if (slots_[due_place].head) return due_place;
  const unsigned level = lowest(used_levels_);
  return level * slots_per_level + lowest(used_[level]);
}

void timing_wheel::file(timer_node& node) noexcept {
  const unsigned place = place_of(node.when_);
  const unsigned level = place / slots_per_level;
  slot& s = slots_[place];
  node.place_ = static_cast<std::uint16_t>(place);
  if (s.head) {
    node.next_ = s.head;
    node.previous_ = s.head->previous_;
    node.previous_->next_ = &node;
    s.head->previous_ = &node;
    if (node.when_ > s.earliest) return;
    vague_[level] &= ~bit(place);
  } else {
    node.next_ = node.previous_ = s.head = &node;
    used_[level] |= bit(place);
    used_levels_ |= 1u << level;
  }
  s.earliest = node.when_;
}

// Moves the reference time to the first deadline of a slot, and inserts the slot's nodes again, all at lower levels.
// The nodes are inserted in their order in the slot. No other node at the lower levels is due at the same time as one
// of these nodes. So nodes with equal deadlines keep their order.
void timing_wheel::descend(unsigned place) noexcept {
  timer_node* node = slots_[place].head;
  const timer_node* last = node->previous_;
  reference_ = slots_[place].earliest;
  clear(place);
  for (;;) {
    timer_node* following = node->next_;
    file(*node);
    if (node == last) return;
    node = following;
  }
}

void timing_wheel::clear(unsigned place) noexcept {
  const unsigned level = place / slots_per_level;
  slots_[place].head = nullptr;
  used_[level] &= ~bit(place);
  vague_[level] &= ~bit(place);
  if (used_[level] == 0) used_levels_ &= ~(1u << level);
}

// If a slot has only a few nodes, sets its bound `earliest` to their earliest deadline. With many nodes the old bound
// stays, although it may be too early. When the time of that bound is reached, the nodes move to lower levels.
void timing_wheel::sharpen(unsigned place) noexcept {
  constexpr int few = 16;
  slot& s = slots_[place];
  vague_[place / slots_per_level] &= ~bit(place);
  std::uint64_t earliest = s.head->when_;
  const timer_node* node = s.head;
  for (int seen = 0; seen < few; ++seen) {
    earliest = std::min(earliest, node->when_);
    node = node->next_;
    if (node == s.head) {
      s.earliest = earliest;
      return;
    }
  }
}

}  // namespace canigo::detail
