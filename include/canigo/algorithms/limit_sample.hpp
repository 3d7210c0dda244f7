#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <string_view>

namespace canigo {

/// How a call ended, from the view of an adaptive limit.
enum class sample_outcome : std::uint8_t {
  ok,         ///< the call ended with a result, and its latency counts
  dropped,    ///< the callee refused the call, or did not answer in time
  cancelled,  ///< the caller cancelled the call
};

/// The report of a call that has ended, for an adaptive limit.
struct limit_sample {
  duration latency{};           ///< the time from the start of the call to its end, or to its cancellation
  std::uint64_t in_flight = 1;  ///< calls under way when this call started, including this call
  sample_outcome outcome = sample_outcome::ok;
  duration waited{};  ///< how long the call waited for its slot, before it started
};

/// The start value and the bounds of an adaptive limit.
struct limit_bounds {
  std::uint64_t initial = 20;
  std::uint64_t least = 1;
  std::uint64_t most = 1000;
};

/// Why an adaptive limit has changed, or stayed the same.
enum class limit_reason : std::uint8_t {
  none,       ///< the limit has not made a decision yet
  learning,   ///< the first windows measure the baseline latency
  unused,     ///< so few calls are under way that they tell nothing about the limit
  dropped,    ///< many calls were dropped
  probe,      ///< the limit is low for a moment, to measure the baseline latency
  measured,   ///< a probe has ended, and has measured the baseline latency
  slow,       ///< the latency is above the baseline, or above the target
  fast,       ///< the latency is low enough to allow more calls
  steady,     ///< the limit stays as it is
  unrelated,  ///< the last change was undone: the lower limit did not stop the drops, or the higher limit did not help
  starved,    ///< callers cancel their calls before the end, because they waited too long for a slot
};

constexpr std::string_view to_string(limit_reason r) noexcept {
  switch (r) {
    case limit_reason::none:
      return "none";
    case limit_reason::learning:
      return "learning";
    case limit_reason::unused:
      return "unused";
    case limit_reason::dropped:
      return "dropped";
    case limit_reason::unrelated:
      return "unrelated";
    case limit_reason::starved:
      return "starved";
    case limit_reason::probe:
      return "probe";
    case limit_reason::measured:
      return "measured";
    case limit_reason::slow:
      return "slow";
    case limit_reason::fast:
      return "fast";
    case limit_reason::steady:
      return "steady";
  }
  return "?";
}

/// A decision of an adaptive limit: the limit before and after, the reason, and the time.
struct limit_decision {
  limit_reason why = limit_reason::none;
  double from = 0;  ///< the limit before the decision; a real number, of which the whole part is used
  double to = 0;
  time_point at{};
};

}  // namespace canigo
