#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace canigo::detail {

/// The most sublimits of a limit, and the number of none.
inline constexpr std::size_t most_sublimits = 256;
inline constexpr std::uint16_t without_sublimit = 0xffff;

/// The set of alternatives of which one may serve a waiter, a bit for each, and the sublimit that it needs, too.
struct lane_key {
  std::uint64_t set = 0;
  std::uint16_t sublimit = without_sublimit;

  friend bool operator==(const lane_key&, const lane_key&) = default;
};

/// A set of sublimits. A value.
class sublimit_set {
 public:
  bool has(std::uint16_t i) const noexcept { return i != without_sublimit && (words_[i / 64] >> i % 64 & 1) != 0; }
  void insert(std::uint16_t i) noexcept {
    if (i != without_sublimit) words_[i / 64] |= std::uint64_t{1} << i % 64;
  }

 private:
  std::array<std::uint64_t, most_sublimits / 64> words_{};
};

/// The alternatives and the sublimits that no waiter keeps from those behind it. A value.
class open_lanes {
 public:
  std::uint64_t alternatives() const noexcept { return alternatives_; }
  bool has(const lane_key& k) const noexcept { return (k.set & alternatives_) != 0 && !kept_.has(k.sublimit); }
  /// Whether a waiter for its alternatives also needs this sublimit. It has room for that waiter now, and may lack it
  /// after another grant.
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
