#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <string_view>

namespace canigo {

/// How a call ended, as an adaptive limit counts it.
enum class sample_outcome : std::uint8_t {
  ok,         ///< its latency counts
  dropped,    ///< the callee refused it, or did not answer in time
  cancelled,  ///< the caller gave it up
};

/// One call, as an adaptive limit learns of it when it has ended.
struct limit_sample {
  duration latency{};           ///< from its start to its end; of a cancelled call, until it was given up
  std::uint64_t in_flight = 1;  ///< calls under way when this call started, itself included
  sample_outcome outcome = sample_outcome::ok;
  duration waited{};  ///< how long it waited for its place, before it started
};

/// The bounds of an adaptive limit.
struct limit_bounds {
  std::uint64_t initial = 20;
  std::uint64_t least = 1;
  std::uint64_t most = 1000;
};

/// Why an adaptive limit has changed, or has not.
enum class limit_reason : std::uint8_t {
  none,       ///< nothing was decided yet
  learning,   ///< the first windows measure the baseline
  unused,     ///< so few calls are under way that they say nothing about the limit
  dropped,    ///< many calls were dropped
  probe,      ///< the limit is low for a moment, to measure the baseline
  measured,   ///< a probe has ended: the baseline is known again
  slow,       ///< the latency is above the baseline, or above the target
  fast,       ///< there is room for more calls
  steady,     ///< the limit is where it should be
  unrelated,  ///< drops went on at a lower limit, or hardly more succeeded at a higher one: it is back where it was
  starved,    ///< the calls are given up before they can end, because their callers have waited too long for a place
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

/// One decision of an adaptive limit.
struct limit_decision {
  limit_reason why = limit_reason::none;
  double from = 0;  ///< the limit before; a limit is a real number, of which the whole part counts
  double to = 0;
  time_point at{};
};

}  // namespace canigo
