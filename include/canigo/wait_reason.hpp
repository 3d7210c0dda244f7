#pragma once

#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo {

/// Why a request of a limit has to wait.
struct wait_reason {
  enum class cause {
    none,         ///< no request waits
    paused,       ///< pause_until() of the limit
    rate,         ///< the rate at `index`; of several that hold it up, the last to let it go
    concurrency,  ///< all permits are out
    share,        ///< all places of the shared cap are taken
    flow,         ///< only the ceilings of their own flows hold the waiters; see `ceiling`
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
  duration estimate{};       ///< a lower bound on its wait from now on, unless a later request goes before it
  /// The limit that it waits for once the waiters before it have gone. The places that those take count only if no rate
  /// holds it up, as some may have ended until then.
  wait_reason reason;
};

/// For how long each limit was the one that the first waiter lacked. Time in which no request waited counts for none.
struct binding_stats {
  std::vector<duration> rates;
  duration concurrency{};
  duration share{};
  duration paused{};
  duration flow{};  ///< the ceilings or pauses of their flows held all waiters
};

}  // namespace canigo
