#pragma once

#include "canigo/backoff.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo::gateway {

/// The pauses of an upstream that refuses calls and does not say for how long: 1 s, 2 s, 4 s, to 60 s, until a call
/// succeeds. Each is up to a quarter longer, at random, so that instances do not come back together. A value.
///
/// Calls that are refused at the same time count once: only a call that began after the last pause makes it longer.
class pause_growth {
 public:
  static constexpr backoff steps{
      .first = std::chrono::seconds{1}, .cap = std::chrono::seconds{60}, .jitter = jitter::none};

  /// A call that began at `started` is refused. Returns the end of the pause.
  time_point refuse(time_point started, time_point now, std::uint64_t random) noexcept {
    if (now < until_) return until_;
    constexpr std::uint32_t longest = 7;  // 64 s
    if (rounds_ == 0 || (started >= until_ && rounds_ < longest)) ++rounds_;
    const duration step = steps.ceiling(rounds_);
    const backoff more{.first = step / 4, .cap = step / 4, .jitter = jitter::full};
    until_ = saturating_add(now, step + more.delay(1, random));
    return until_;
  }
  /// A call that began at `started` has succeeded.
  void succeed(time_point started) noexcept {
    if (started >= until_) rounds_ = 0;
  }
  /// The next pause is as short as the first one.
  bool is_as_new() const noexcept { return rounds_ == 0; }

 private:
  std::uint32_t rounds_ = 0;
  time_point until_ = time_point::min();
};

}  // namespace canigo::gateway
