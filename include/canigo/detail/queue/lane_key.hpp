#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// The max number of sublimits of a limit.
inline constexpr std::size_t most_sublimits = 256;
/// The value that replaces the number of a sublimit if a request names no sublimit.
inline constexpr std::uint16_t without_sublimit = 0xffff;

/// The alternatives and the sublimit of a waiter. The waiter needs capacity in one alternative of `set`, and in the
/// sublimit. Bit i of `set` stands for alternative i. All waiters with equal keys form a lane.
struct lane_key {
  std::uint64_t set = 0;
  std::uint16_t sublimit = without_sublimit;

  friend bool operator==(const lane_key&, const lane_key&) = default;
};

/// A set of numbers of sublimits. A value type. It never contains without_sublimit.
class sublimit_set {
 public:
  bool has(std::uint16_t i) const noexcept { return i != without_sublimit && (words_[i / 64] >> i % 64 & 1) != 0; }
  void insert(std::uint16_t i) noexcept {
    if (i != without_sublimit) words_[i / 64] |= std::uint64_t{1} << i % 64;
  }

 private:
  std::array<std::uint64_t, most_sublimits / 64> words_{};
};

/// The alternatives and the sublimits that later waiters may still take, while waiters are granted in their order. A
/// waiter that can't be granted reserves the alternatives or the sublimit for which it waits. So later waiters can't
/// take them. A value type.
class open_lanes {
 public:
  std::uint64_t alternatives() const noexcept { return alternatives_; }
  bool has(const lane_key& k) const noexcept { return (k.set & alternatives_) != 0 && !kept_.has(k.sublimit); }
  /// Whether an earlier waiter needs this sublimit, and still waits for an alternative. The sublimit has capacity for
  /// that waiter now, but a grant to a later waiter may use the capacity up.
  bool is_needed(std::uint16_t sublimit) const noexcept { return needed_.has(sublimit); }

  void keep_sublimit(std::uint16_t i) noexcept { kept_.insert(i); }
  void keep_alternatives(const lane_key& of) noexcept {
    alternatives_ &= ~of.set;
    needed_.insert(of.sublimit);
  }
  void keep_all() noexcept { alternatives_ = 0; }

 private:
  std::uint64_t alternatives_ = ~std::uint64_t{0};
  sublimit_set kept_;
  sublimit_set needed_;
};

}  // namespace canigo::detail
