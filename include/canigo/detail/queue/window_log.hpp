#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/rate.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo::detail {

/// The grants of a strict rate in its last period: the difference between a rate on average and a promise.
///
/// A token bucket lets N tokens go in a period, and its burst besides. With this log beside the bucket, no closed
/// window of the period holds more than N tokens: a grant counts until a nanosecond after its period is over. The
/// bucket still paces the grants. It keeps no tokens from a time at which the window had no room for them. So of the
/// requests that have waited for the window, one goes at once, and the others at the rate.
///
/// Grants of one 64th of the period count together, as of the last one of them. So a request may wait a 64th of the
/// period longer than it must, and at least 64 of 65 tokens are used under constant demand.
///
/// Threads: none; its owner holds a lock. Allocates: in the constructor, 1 KiB.
///
/// Source: the sliding window log, with merged entries.
class window_log {
 public:
  /// At most `r.tokens()` tokens in `r.period()`, as the rate was written.
  explicit window_log(const rate& r);

  /// The most tokens of a window, and so the most that one request can get.
  std::uint64_t most() const noexcept { return most_; }

  bool has_room(time_point now, std::uint64_t tokens) const noexcept { return fits(used_at(now), tokens); }
  /// When the window has room for the tokens. For more than a window holds: when it has room for the last of them, if
  /// each is taken as soon as there is room.
  time_point ready_at(time_point now, std::uint64_t tokens) const noexcept;
  /// The tokens that the window has room for; negative while it is in debt.
  std::int64_t room(time_point now) const noexcept { return room_beside(used_at(now)); }

  /// Call it before the bucket `b` gives `tokens` at `now`. Takes from the bucket the tokens that it gathered while the
  /// window had no room for them, but leaves at least `tokens`. Forgets what has left the window.
  void pass(time_point now, std::uint64_t tokens, token_bucket& b) noexcept;
  /// Counts tokens. It saturates at 2^63 in all.
  void add(time_point now, std::uint64_t tokens) noexcept;
  /// Takes tokens that were added at `granted_at` out of the count, if they are still in the window.
  void give_back(time_point granted_at, std::uint64_t tokens) noexcept;
  /// Changes the window. Grants that have left the former one stay out.
  void set_rate(time_point now, const rate& r) noexcept;

 private:
  struct slot {
    time_point last{};  // the time of the last of its grants
    std::uint64_t tokens = 0;
  };

  static constexpr std::int64_t parts = 64;
  // Of a closed window of 64 parts, and some that a late wake-up has not forgotten yet.
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
  std::vector<slot> slots_;  // a ring
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::uint64_t used_ = 0;                    // the sum of the slots; at most 2^63 - 1
  time_point forgotten_ = time_point::min();  // the last grant that is no longer in a slot
};

}  // namespace canigo::detail
