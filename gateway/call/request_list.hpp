#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::gateway {

class call;

/// The requests of one loop that wait or run, each with a number that is not used again for a long time.
///
/// A limit knows its waiters by that number, and the number leads back to the request in constant time. A request costs
/// 16 bytes here. Memory is allocated only when there are more requests at once than ever before.
/// Threads: those of its loop.
class request_list {
 public:
  /// `loop`: 0 to 255.
  explicit request_list(std::size_t loop) noexcept : loop_{loop} {}

  std::uint64_t enter(call& whose);
  void leave(std::uint64_t number) noexcept;

  /// The request with this number; null if it has ended or belongs to another loop.
  call* find(std::uint64_t number) const noexcept;
  std::size_t size() const noexcept { return size_; }
  static std::size_t loop_of(std::uint64_t number) noexcept { return number & 0xff; }

  /// Calls `see` with each request.
  template <class See>
  void each(See see) const {
    for (const slot& s : slots_)
      if (s.who != nullptr) see(*s.who);
  }

 private:
  // A number is made of the loop's index (8 bits), the slot (24 bits), and how often the slot was used (32 bits).
  struct slot {
    call* who = nullptr;
    std::uint32_t use = 0;
    std::uint32_t next_free = 0;
  };
  static constexpr std::uint32_t none = 0xffffffff;

  const std::size_t loop_;
  std::vector<slot> slots_;
  std::uint32_t free_ = none;
  std::size_t size_ = 0;
};

}  // namespace canigo::gateway
