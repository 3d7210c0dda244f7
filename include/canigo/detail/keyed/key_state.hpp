#pragma once

#include "canigo/detail/keyed/keyed_base.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// The engine of one key, while a request waits for the key or is about to.
struct key_room {
  admission* engine = nullptr;
  std::uint64_t hash = 0;
  std::size_t users = 0;  // users of the room; like all members, under the lock of the shard
  bool is_told_to_stop = false;
  key_room* previous = nullptr;
  key_room* next = nullptr;
};

/// Stands beside a key in the table: its level, or its room. The engine of the room then has the level. 16 bytes.
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
  // No bucket lacks so many tokens, and no semaphore has so many permits.
  static constexpr std::uint64_t in_room = ~std::uint64_t{0};
  key_level level_;
};

}  // namespace canigo::detail
