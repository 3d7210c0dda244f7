#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo {

/// Why a request of a limit has to wait.
struct wait_reason {
  enum class cause {
    none,         ///< nobody waits
    paused,       ///< pause_until() of the limit
    rate,         ///< the rate at `index`; of several that hold it up, the last to let it go
    concurrency,  ///< all permits are out
    share,        ///< all places of the shared cap are taken
    flow,         ///< nothing but the ceilings of their own flows holds those that wait; see `ceiling`
  };
  cause binds = cause::none;
  cause ceiling = cause::none;           ///< with cause::flow: the flow's rate at `index`, its concurrency, or a pause
  std::size_t index = 0;                 ///< of the rate, in limiter_options::rates
  time_point until = time_point::max();  ///< when the cause ends; max: by a resume(), or by a released permit
};

/// A request that waits, as a page may show it.
struct waiting_request {
  std::uint64_t tag = 0;     ///< its request.tag
  int priority = 0;          ///< the class that it came in
  std::uint64_t tokens = 0;  ///< of the first unit
  time_point since{};        ///< its arrival, or its request.since
  duration estimate{};       ///< a lower bound on its wait from now on, if nobody goes before it that is not here yet
  /// The limit that it waits for when those before it have gone. The places that they take count only where no rate
  /// holds it up, as some may have ended until then.
  wait_reason reason;
};

/// For how long each limit was what the first waiter lacked. Time in which nobody waited counts for none.
struct binding_stats {
  std::vector<duration> rates;
  duration concurrency{};
  duration share{};
  duration paused{};
  duration flow{};  ///< the ceilings or pauses of their flows held all that waited
};

}  // namespace canigo
