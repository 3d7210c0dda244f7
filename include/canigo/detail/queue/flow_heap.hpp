#pragma once

#include "canigo/detail/queue/flow_places.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace canigo::detail {

/// A heap of flows. Each key has 16 bytes, whose lowest bits are the number of the flow. A flow is in the heap at most
/// once.
///
/// Each node has four children. A grant usually moves the first key down, which takes half as many steps as with two
/// children.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: only in make_room_for().
template <class Before>
class flow_heap {
 public:
  explicit flow_heap(Before before) : before_{before} {}

  static constexpr std::uint32_t number_of(uint128 key) noexcept {
    return static_cast<std::uint32_t>(key) & ((std::uint32_t{1} << flow_bits) - 1);
  }

  /// Reserves memory for flows with numbers below `flows`. If it throws, nothing has changed.
  void make_room_for(std::size_t flows) {
    keys_.reserve(flows);
    places_.resize(std::max(flows, places_.size()), nowhere);
  }

  bool empty() const noexcept { return keys_.empty(); }
  std::size_t size() const noexcept { return keys_.size(); }
  bool has(std::uint32_t number) const noexcept { return places_[number] != nowhere; }
  /// The first key in the order of `before`. Precondition: the heap is not empty.
  uint128 top() const noexcept { return keys_.front(); }

  /// Inserts a flow, or changes the key of a flow. Also call it with an unchanged key if `before` now gives this key
  /// another position.
  void put(uint128 key) noexcept {
    std::uint32_t at = places_[number_of(key)];
    if (at == nowhere) {
      at = static_cast<std::uint32_t>(keys_.size());
      keys_.push_back(key);
      move_up(at, key);
    } else if (at > 0 && before_(key, keys_[parent(at)])) {
      move_up(at, key);
    } else {
      move_down(at, key);
    }
  }

  /// Removes a flow if it is in the heap.
  void erase(std::uint32_t number) noexcept {
    const std::uint32_t at = places_[number];
    if (at == nowhere) return;
    places_[number] = nowhere;
    const uint128 last = keys_.back();
    keys_.pop_back();
    if (at == keys_.size()) return;
    places_[number_of(last)] = at;
    keys_[at] = last;
    put(last);
  }

  /// Calls `f` for each key; `f` may change the key if the order stays the same.
  template <class Function>
  void for_each(Function&& f) {
    for (uint128& key : keys_) f(key);
  }

 private:
  static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();
  static constexpr std::uint32_t children = 4;

  static std::uint32_t parent(std::uint32_t at) noexcept { return (at - 1) / children; }

  void place(std::uint32_t at, uint128 key) noexcept {
    keys_[at] = key;
    places_[number_of(key)] = at;
  }

  void move_up(std::uint32_t at, uint128 key) noexcept {
    while (at > 0 && before_(key, keys_[parent(at)])) {
      place(at, keys_[parent(at)]);
      at = parent(at);
    }
    place(at, key);
  }

  void move_down(std::uint32_t at, uint128 key) noexcept {
    const auto size = static_cast<std::uint32_t>(keys_.size());
    for (std::uint32_t first = at * children + 1; first < size; first = at * children + 1) {
      std::uint32_t least = first;
      for (std::uint32_t c = first + 1; c < std::min(first + children, size); ++c) {
        if (before_(keys_[c], keys_[least])) least = c;
      }
      if (!before_(keys_[least], key)) break;
      place(at, keys_[least]);
      at = least;
    }
    place(at, key);
  }

  Before before_;
  std::vector<uint128> keys_;
  std::vector<std::uint32_t> places_;
};

}  // namespace canigo::detail
