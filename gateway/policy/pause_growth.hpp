#pragma once

#include "canigo/algorithms/backoff.hpp"
#include "canigo/time.hpp"

#include <chrono>
#include <cstdint>

namespace canigo::gateway {

/// Computes how long to pause calls to an upstream that refuses calls and names no time. The first pause takes 1 s, and
/// each later pause twice as long as the one before, up to 60 s. After a successful call, the next pause is a first
/// pause again. A random addition of up to a quarter keeps several instances from calling again at the same time. A
/// value type.
///
/// If the upstream refuses a call, but says that the call may be repeated immediately, the first pause takes 10 ms.
///
/// Concurrent refusals count once: only the refusal of a call that began after the last pause makes the pause longer.
class pause_growth {
 public:
  static constexpr duration of_mute = std::chrono::seconds{1};
  static constexpr duration of_at_once = std::chrono::milliseconds{10};
  static constexpr duration longest = std::chrono::seconds{60};
  // The first pause of a target that rejects the key with which the gateway calls it. This pause is long, because the
  // target refuses each later call, too, until the key is replaced.
  static constexpr duration of_key = std::chrono::seconds{10};
  static constexpr duration longest_of_key = std::chrono::minutes{5};

  /// Notes that a call that began at `started` was refused. `first`: the length of the first pause; `most`: the length
  /// of the longest one. Returns the end of the pause.
  time_point refuse(time_point started, time_point now, std::uint64_t random, duration first = of_mute,
                    duration most = longest) noexcept {
    if (now < until_) return until_;
    constexpr std::uint32_t most_rounds = 14;  // 10 ms doubled 13 times are 82 s, more than `longest`
    if (rounds_ == 0 || (started >= until_ && rounds_ < most_rounds)) ++rounds_;
    const duration step = backoff{.first = first, .cap = most, .jitter = jitter::none}.ceiling(rounds_);
    const backoff more{.first = step / 4, .cap = step / 4, .jitter = jitter::full};
    until_ = saturating_add(now, step + more.delay(1, random));
    return until_;
  }
  /// Notes that a call that began at `started` has succeeded. If the call began after the last pause, the next pause is
  /// as short as a first pause again.
  void succeed(time_point started) noexcept {
    if (started >= until_) rounds_ = 0;
  }
  /// Whether the next pause will be a first pause, because no refusal has come since the last success.
  bool is_as_new() const noexcept { return rounds_ == 0; }

 private:
  std::uint32_t rounds_ = 0;
  time_point until_ = time_point::min();
};

}  // namespace canigo::gateway
