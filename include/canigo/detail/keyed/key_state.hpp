#pragma once

#include "canigo/detail/keyed/keyed_base.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// The engine of one key, which exists while a request waits for the key or is about to wait.
struct key_room {
  admission* engine = nullptr;
  std::uint64_t hash = 0;
  std::size_t users = 0;  // number of users of the engine; the lock of the shard guards all members
  bool is_told_to_stop = false;
  key_room* previous = nullptr;
  key_room* next = nullptr;
};

/// The state of a key in the table, in 16 bytes: the level of the key (its tokens, or its permits in use), or a pointer
/// to its key_room. If the state is a pointer, the engine of the key_room has the level.
class key_state {
 public:
  explicit key_state(const key_level& l) noexcept : level_{l} {}

  bool is_room() const noexcept { return level_.taken == in_room; }
  key_room* room() const noexcept {
    return is_room() ? std::bit_cast<key_room*>(static_cast<std::uintptr_t>(level_.origin)) : nullptr;
  }
  void enter(key_room& r) noexcept { level_ = {static_cast<std::int64_t>(std::bit_cast<std::uintptr_t>(&r)), in_room}; }
  key_level& level() noexcept { return level_; }
  const key_level& level() const noexcept { return level_; }

 private:
  // A value of `taken` that no bucket and no semaphore can have. It marks a key_state that holds a pointer to a
  // key_room.
  static constexpr std::uint64_t in_room = ~std::uint64_t{0};
  key_level level_;
};

}  // namespace canigo::detail
