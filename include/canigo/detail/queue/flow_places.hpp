#pragma once

#include <cstdint>

namespace canigo::detail {

/// The number of bits for the number of a flow, in a permit and in a key of flow_heap.
inline constexpr unsigned flow_bits = 21;

/// Combines the number of slots of a permit and the number of its flow in one word. Without a flow, the word is the
/// number of slots itself. So a permit of a limit without flows needs no second word.
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
  // the bit that marks a word with a flow; no limit has so many slots that their number reaches this bit
  static constexpr std::uint64_t mark = std::uint64_t{1} << 63;
};

}  // namespace canigo::detail
