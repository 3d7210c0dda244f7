#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo::gateway {

/// The pauses of an upstream that refuses calls and does not say for how long: 1 s, 2 s, 4 s, to 60 s, until a call
/// succeeds. Each is up to a quarter longer, at random, so that instances do not come back together. A value.
///
/// If the upstream says that calls may come back at once, and goes on refusing them, the first pause is 10 ms.
///
/// Calls that are refused at the same time count once: only a call that began after the last pause makes it longer.
class pause_growth {
 public:
  static constexpr duration of_mute = std::chrono::seconds{1};
  static constexpr duration of_at_once = std::chrono::milliseconds{10};
  static constexpr duration longest = std::chrono::seconds{60};
  // Of a target that does not take its key: until it has another key, each pause ends with a call that is refused.
  static constexpr duration of_key = std::chrono::seconds{10};
  static constexpr duration longest_of_key = std::chrono::minutes{5};

  /// Notes that a call that began at `started` was refused. `first`: the first pause; `most`: the longest one. Returns
  /// the end of the pause.
  time_point refuse(time_point started, time_point now, std::uint64_t random, duration first = of_mute,
                    duration most = longest) noexcept {
    if (now < until_) return until_;
    constexpr std::uint32_t most_rounds = 14;  // 10 ms become 82 s
    if (rounds_ == 0 || (started >= until_ && rounds_ < most_rounds)) ++rounds_;
    const duration step = backoff{.first = first, .cap = most, .jitter = jitter::none}.ceiling(rounds_);
    const backoff more{.first = step / 4, .cap = step / 4, .jitter = jitter::full};
    until_ = saturating_add(now, step + more.delay(1, random));
    return until_;
  }
  /// Notes that a call that began at `started` has succeeded.
  void succeed(time_point started) noexcept {
    if (started >= until_) rounds_ = 0;
  }
  /// Whether the next pause is as short as the first one.
  bool is_as_new() const noexcept { return rounds_ == 0; }

 private:
  std::uint32_t rounds_ = 0;
  time_point until_ = time_point::min();
};

}  // namespace canigo::gateway
