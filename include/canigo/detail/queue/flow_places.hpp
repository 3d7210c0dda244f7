#pragma once

#include <cstdint>

namespace canigo::detail {

/// The number of bits for the number of a flow, in a permit and in a key of flow_heap.
inline constexpr unsigned flow_bits = 21;

/// The number of slots of a permit, combined with the number of their flow in one word. Without a flow it is the plain
/// number, so a permit of a limit without flows costs nothing more.
class flow_places {
 public:
  static constexpr unsigned place_bits = 63 - flow_bits;
  /// The max number of slots of one permit of a flow.
  static constexpr std::uint64_t most = (std::uint64_t{1} << place_bits) - 1;

  static constexpr std::uint64_t join(std::uint64_t places, std::uint32_t flow) noexcept {
    return flow == 0 ? places : mark | std::uint64_t{flow} << place_bits | places;
  }
  static constexpr std::uint64_t places(std::uint64_t word) noexcept { return (word & mark) != 0 ? word & most : word; }
  static constexpr std::uint32_t flow(std::uint64_t word) noexcept {
    return (word & mark) != 0 ? static_cast<std::uint32_t>((word & ~mark) >> place_bits) : 0;
  }

 private:
  // marks the word as combined; no limit has that many slots
  static constexpr std::uint64_t mark = std::uint64_t{1} << 63;
};

}  // namespace canigo::detail
