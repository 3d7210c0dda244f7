#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// The grants of a strict rate in its last period, which turn an average rate into a strict one.
///
/// A token bucket lets N tokens pass in a period, plus its burst. With this log in addition to the bucket, no window of
/// one period, both ends included, holds more than N tokens. A grant counts until a nanosecond after its period is
/// over. The bucket still spaces the grants. Tokens that the bucket gains while the window is full are removed. So when
/// the window allows grants again, one waiting request is granted immediately, and the others at the rate.
///
/// All grants within one 64th of the period are counted together, at the instant of the last one. So a request may wait
/// a 64th of the period longer than necessary. Under constant demand, at least 64 of 65 tokens are used.
///
/// Threads: not thread-safe; its owner must hold a lock. Allocates: in the constructor, 1 KiB.
///
/// Source: the sliding window log, with merged entries.
class window_log {
 public:
  /// Allows at most `r.tokens()` tokens in each window of length `r.period()`. So `rate{10, 3s}` and `rate{20, 6s}`
  /// have different windows, although the rates are equal.
  explicit window_log(const rate& r);

  /// The max number of tokens that a window can hold, which is also the max number in one request.
  std::uint64_t most() const noexcept { return most_; }

  bool has_room(time_point now, std::uint64_t tokens) const noexcept { return fits(used_at(now), tokens); }
  /// The instant at which the window has room for `tokens` more tokens. If `tokens` exceeds most(), it is the instant
  /// at which the last token fits, if each earlier token is taken as soon as it fits.
  time_point ready_at(time_point now, std::uint64_t tokens) const noexcept;
  /// The number of tokens for which the window has room; negative if it already holds more tokens than the rate allows.
  std::int64_t room(time_point now) const noexcept { return room_beside(used_at(now)); }

  /// Call it before the bucket `b` grants `tokens` at `now`. Forgets grants that have left the window. Removes from `b`
  /// the tokens that it gained while the window had no room, but leaves at least `tokens` in `b`.
  void pass(time_point now, std::uint64_t tokens, token_bucket& b) noexcept;
  /// Adds tokens to the log. The sum of all tokens in the log saturates at 2^63 - 1.
  void add(time_point now, std::uint64_t tokens) noexcept;
  /// Removes tokens that were added at `granted_at` from the log, if they are still in the window.
  void give_back(time_point granted_at, std::uint64_t tokens) noexcept;
  /// Changes the rate and the window. Grants that have left the former window stay forgotten, even if the new window is
  /// longer.
  void set_rate(time_point now, const rate& r) noexcept;

 private:
  struct slot {
    time_point last{};  // the time of the last grant in this slot
    std::uint64_t tokens = 0;
  };

  static constexpr std::int64_t parts = 64;
  // There is one slot for each part, which is a 64th of the window. A window may touch 65 parts, because it includes
  // both ends. The other slots are for parts that have left the window, but were not removed yet because of a late
  // wake-up.
  static constexpr std::size_t most_slots = parts + 4;

  const slot& at(std::size_t i) const noexcept { return slots_[(first_ + i) % most_slots]; }
  slot& at(std::size_t i) noexcept { return slots_[(first_ + i) % most_slots]; }
  time_point leaves_at(const slot& s) const noexcept;
  bool fits(std::uint64_t used, std::uint64_t tokens) const noexcept {
    return tokens <= most_ && used <= most_ - tokens;
  }
  std::int64_t room_beside(std::uint64_t used) const noexcept {
    return static_cast<std::int64_t>(most_) - static_cast<std::int64_t>(used);
  }
  std::uint64_t used_at(time_point now) const noexcept;
  bool has_left(time_point now) const noexcept { return size_ > 0 && leaves_at(at(0)) <= now; }
  void forget_first() noexcept;

  std::uint64_t most_;
  duration period_;
  duration part_;
  std::vector<slot> slots_;  // the slots of the window, as a ring buffer
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::uint64_t used_ = 0;                    // the sum of the tokens in all slots; at most 2^63 - 1
  time_point forgotten_ = time_point::min();  // the time of the last grant that is no longer in a slot
};

}  // namespace canigo::detail
