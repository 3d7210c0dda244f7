#pragma once

#include "canigo/rate.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace canigo {

/// One of the rates of a limiter, or of a flow.
struct rate_limit {
  canigo::rate rate;                 ///< tokens released per period
  std::uint64_t burst = 1;           ///< most tokens kept while no request comes, and most for one; 1 to 2^62
  std::uint64_t initial_tokens = 0;  ///< 0 to burst
  std::string unit = {};             ///< of what it counts, such as "bytes"; up to 5 units; empty: the first unit
};

/// For limiter_options::concurrency and flow_options::concurrency: no cap.
inline constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

}  // namespace canigo
