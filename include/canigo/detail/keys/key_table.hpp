#pragma once

#include "canigo/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace canigo::detail {

/// A hash table with open addressing: an array of keys and values, and an array of marks of four bytes, one per slot.
///
/// It grows by half. At least an eighth of its slots is always free. An erased key leaves no tombstone.
///
/// Entries that are far from their home slot, which their hash selects, have precedence. So a search is short, and ends
/// before it has checked all entries of a cluster. Source: P. Celis, "Robin Hood Hashing", 1986; the marks with
/// distance and a part of the hash are those of M. Ankerl's unordered_dense.
///
/// Threads: not thread-safe. Allocates: in grow(), and if copying a key allocates.
template <class Key, class Value>
class key_table {
 public:
  struct entry {
    Key key;
    Value value;
  };
  static_assert(std::is_nothrow_move_constructible_v<entry> && std::is_nothrow_destructible_v<entry>,
                "the key of a limit must be movable without an exception");

  key_table() = default;
  key_table(const key_table&) = delete;
  key_table& operator=(const key_table&) = delete;
  ~key_table() { destroy(); }

  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  /// The size of the table on the heap, without heap memory that the keys own.
  std::size_t bytes() const noexcept { return capacity_ * (sizeof(entry) + sizeof(mark)); }
  /// Whether one more entry needs a larger table.
  bool is_crowded() const noexcept { return (size_ + 1) * 8 > capacity_ * 7; }

  /// The entry with this hash for which `is_it` returns true, or nullptr.
  template <class Predicate>
  entry* find_if(std::uint64_t hash, Predicate&& is_it) noexcept {
    if (size_ == 0) return nullptr;
    std::size_t at = home(hash);
    for (mark wanted = first_mark(hash); marks_[at] >= wanted; wanted += one_place, at = after(at)) {
      if (marks_[at] == wanted && is_it(entries_[at])) return &entries_[at];
    }
    return nullptr;
  }
  template <class View>
  entry* find(std::uint64_t hash, const View& key) noexcept {
    return find_if(hash, [&key](const entry& e) { return e.key == key; });
  }

  /// Adds a new key. Precondition: the key is not in the table, and is_crowded() is false. Throws only if copying the
  /// key throws.
  template <class View>
  entry& insert(std::uint64_t hash, const View& key, const Value& value) {
    return place(hash, entry{Key(key), value});
  }

  /// Makes the table larger by half. If it throws std::bad_alloc, nothing has changed. `hash_of` computes the hash of a
  /// key.
  template <class Hash>
  void grow(const Hash& hash_of) {
    key_table larger;
    larger.allocate(std::max<std::size_t>(8, capacity_ + capacity_ / 2));
    for_each([&](entry& e) { larger.place(hash_of(e.key), std::move(e)); });
    swap(larger);
  }

  void erase(entry& e) noexcept {
    std::size_t at = static_cast<std::size_t>(&e - entries_);
    for (std::size_t next = after(at); marks_[next] >= 2 * one_place; at = next, next = after(next)) {
      replace(entries_[at], std::move(entries_[next]));
      marks_[at] = marks_[next] - one_place;
    }
    entries_[at].~entry();
    marks_[at] = 0;
    --size_;
  }

  /// Examines the next `places` slots, and erases the entries for which `goes` returns true. Returns the number of
  /// erased entries. The next call continues after the last examined slot; after the last slot of the table comes the
  /// first.
  template <class Predicate>
  std::size_t sweep(std::size_t places, Predicate&& goes) noexcept {
    std::size_t erased = 0;
    places = std::min(places, capacity_);
    while (places > 0 && size_ > 0) {
      if (hand_ >= capacity_) hand_ = 0;
      if (marks_[hand_] != 0 && goes(std::as_const(entries_[hand_]))) {
        erase(entries_[hand_]);  // another entry may move into this slot, so hand_ stays
        ++erased;
      } else {
        ++hand_;
        --places;
      }
    }
    return erased;
  }

  template <class Function>
  void for_each(Function&& f) noexcept {
    for (std::size_t i = 0; i < capacity_; ++i) {
      if (marks_[i] != 0) f(entries_[i]);
    }
  }

 private:
  /// The mark of a slot; 0 if the slot is free. The lower eight bits are a part of the hash of the slot's key. The
  /// upper bits are the distance of the slot from the key's home slot, plus one.
  using mark = std::uint32_t;
  static constexpr mark one_place = 1 << 8;
  static constexpr std::size_t most_places = (std::size_t{1} << 24) - 2;  // the greatest distance to the home slot

  static mark first_mark(std::uint64_t hash) noexcept { return one_place | static_cast<mark>(hash >> 16 & 0xff); }
  std::size_t home(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>((uint128{hash} * capacity_) >> 64);
  }
  std::size_t after(std::size_t at) const noexcept { return at + 1 == capacity_ ? 0 : at + 1; }

  static void replace(entry& to, entry&& from) noexcept {
    to.~entry();
    ::new (static_cast<void*>(&to)) entry(std::move(from));
  }

  entry& place(std::uint64_t hash, entry&& e) noexcept {
    std::size_t at = home(hash);
    mark own = first_mark(hash);
    for (; own < marks_[at]; own += one_place) at = after(at);
    std::size_t free = at;
    while (marks_[free] != 0) free = after(free);
    // Each entry from slot `at` up to the free slot moves one slot further, so that slot `at` becomes free.
    for (std::size_t to = free; to != at;) {
      const std::size_t from = to == 0 ? capacity_ - 1 : to - 1;
      ::new (static_cast<void*>(&entries_[to])) entry(std::move(entries_[from]));
      entries_[from].~entry();
      marks_[to] = marks_[from] + one_place;
      to = from;
    }
    entry* there = ::new (static_cast<void*>(&entries_[at])) entry(std::move(e));
    marks_[at] = own;
    ++size_;
    return *there;
  }

  void allocate(std::size_t capacity) {
    if (capacity > most_places) throw std::bad_alloc{};
    std::byte* room = static_cast<std::byte*>(
        ::operator new(capacity * (sizeof(entry) + sizeof(mark)), std::align_val_t{alignof(entry)}));
    entries_ = reinterpret_cast<entry*>(room);
    marks_ = reinterpret_cast<mark*>(room + capacity * sizeof(entry));
    std::memset(marks_, 0, capacity * sizeof(mark));
    capacity_ = capacity;
  }

  void destroy() noexcept {
    for_each([](entry& e) { e.~entry(); });
    if (entries_ != nullptr) ::operator delete(static_cast<void*>(entries_), std::align_val_t{alignof(entry)});
  }

  void swap(key_table& other) noexcept {
    std::swap(entries_, other.entries_);
    std::swap(marks_, other.marks_);
    std::swap(capacity_, other.capacity_);
    std::swap(size_, other.size_);
    hand_ = 0;
  }

  entry* entries_ = nullptr;
  mark* marks_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  std::size_t hand_ = 0;
};

}  // namespace canigo::detail
