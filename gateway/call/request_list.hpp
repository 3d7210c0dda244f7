#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::gateway {

class call;

/// The waiting and running requests of one event loop. Each request has a number that is not reused for a long time.
///
/// A limit identifies its waiters by these numbers. The list finds the request with a number in constant time. A
/// request takes 16 bytes of the list. Memory is allocated only if there are more requests at the same time than ever
/// before. Threads: only the thread of its loop.
class request_list {
 public:
  /// `loop`: the index of the event loop, 0 to 255.
  explicit request_list(std::size_t loop) noexcept : loop_{loop} {}

  /// Adds the call, and returns its number, which is never 0.
  std::uint64_t enter(call& whose);
  void leave(std::uint64_t number) noexcept;

  /// Returns the request with this number; null if it has ended or belongs to another loop.
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
  // The number of a request consists of the loop's index (8 bits), the index of the request's slot (24 bits), and the
  // number of uses of that slot (32 bits).
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
