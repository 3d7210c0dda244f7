#pragma once

#include "canigo/rate.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace canigo {

/// How a rate of N tokens per period P holds in a window of time.
///
/// A token bucket makes N tokens in each P, and has a burst beside. So the first window holds N + burst: 72,000 tokens
/// of a quota of 60,000 a minute with a burst of 12,000. For a provider that counts minutes, that is too many.
///
/// A strict rate has a log of its grants in the last P beside the bucket. It grants nothing that would make more than N
/// in any closed window of length P. P is as the rate is written: `rate{10, 3s}` is not `rate{20, 6s}`. The bucket
/// paces the grants as ever, and keeps no token for which the window had no room. So after a burst the queue moves at
/// the rate again, once there is room. Under constant demand at least 64 of 65 tokens are used. The details:
/// - A grant counts as of the instant at which it was made, and a charge as of the instant at which it was told.
/// - Tokens that a permit gives back by settling for less leave the window at once. That takes a limiter with a strict
///   rate of its own, or with several units. Elsewhere the window counts them on, as it does with scheduler::refund(),
///   which does not say when they were granted. Grants that have left the window give no room back.
/// - A charge beyond the room is a debt: then nothing is granted until enough has left the window.
/// - limiter::lower_tokens() lowers the bucket, not the room of the window.
/// - A rate that is changed to a longer period has forgotten what its shorter one no longer needed.
/// - It costs 1 KiB a rate, and no allocation later.
///
/// Keyed limits, whose keys have 16 bytes each, and limits in Redis have no strict windows. There a rate of N - b
/// tokens with a burst of b keeps the same promise, if nothing is given back, and uses N - b of N.
enum class rate_window {
  average,  ///< a closed window of the period may hold the burst beside the tokens of the rate
  strict,   ///< a closed window of the period never holds more than the tokens of the rate
};

/// One of the rates of a limiter, or of a flow.
struct rate_limit {
  canigo::rate rate;                 ///< tokens released per period
  std::uint64_t burst = 1;           ///< most tokens kept while no request comes, and most for one; 1 to 2^62
  std::uint64_t initial_tokens = 0;  ///< 0 to burst
  std::string unit = {};             ///< of what it counts, such as "bytes"; up to 5 units; empty: the first unit
  rate_window window = rate_window::average;  ///< strict: the burst is at most the tokens of the rate
};

/// For limiter_options::concurrency and flow_options::concurrency: no cap.
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

}  // namespace canigo
