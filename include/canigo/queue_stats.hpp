#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo {

/// One priority class: how many wait, how many were granted, and how long these waited.
struct class_stats {
  std::size_t waiting = 0;
  std::uint64_t granted = 0;
  wait_histogram wait;  ///< of the granted requests, from call to grant
};

/// How requests that a limit in shadow mode has granted at once would have ended.
///
/// A request that would have waited counts when its wait would have ended.
struct shadow_stats {
  std::uint64_t waited = 0;   ///< would have been granted after a wait
  std::uint64_t refused = 0;  ///< would have failed: too large, not there at once, queue full, evicted, or too late
  std::uint64_t shed = 0;     ///< would have been shed
  wait_histogram wait;        ///< of the requests that would have waited
};

/// Requests that were refused at once, by the cause.
struct rejection_stats {
  std::uint64_t not_there = 0;    ///< try_acquire() found too little, or a waiter before it
  std::uint64_t queue_full = 0;   ///< of the limit, or of its flow
  std::uint64_t unreachable = 0;  ///< even the least wait would have ended after the deadline
  std::uint64_t too_large = 0;    ///< more than the limit, or its flow, can ever give
  std::uint64_t invalid = 0;      ///< an argument out of range
  std::uint64_t other = 0;        ///< no memory, for example
};

/// All requests so far, by how they ended. Consistent: taken in one step.
///
/// requested = waiting + granted + cancelled + timed_out + evicted + rejected + stopped + shed, at every moment.
struct queue_stats {
  std::vector<class_stats> classes;
  std::size_t waiting = 0;
  std::uint64_t requested = 0;
  std::uint64_t granted = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;  ///< the deadline passed while it waited
  std::uint64_t evicted = 0;
  std::uint64_t rejected = 0;  ///< refused at once; the sum of `rejections`
  std::uint64_t stopped = 0;
  std::uint64_t shed = 0;  ///< ended because the limit was overloaded
  rejection_stats rejections;
};

/// The number of no alternative of a limiter.
inline constexpr std::size_t no_alternative = ~std::size_t{0};

/// Why a request of a limit has to wait.
struct wait_reason {
  enum class cause {
    none,          ///< no request waits
    paused,        ///< pause_until() of the limit
    rate,          ///< the rate at `index`; if several rates hold up the request, the one that allows it last
    concurrency,   ///< all permits are out
    share,         ///< all places of the shared cap are taken
    flow,          ///< only the ceilings of their own flows hold the waiters; see `ceiling`
    alternatives,  ///< no alternative that may serve it has room; see `alternative` and `ceiling`
  };
  cause binds = cause::none;
  /// With cause::flow: the flow's rate at `index`, its concurrency, or a pause. With cause::alternatives, the same of
  /// the alternative that can serve it first.
  cause ceiling = cause::none;
  std::size_t index = 0;                     ///< the index of the rate in limiter_options::rates
  time_point until = time_point::max();      ///< when the cause ends; max: by a resume(), or by a released permit
  std::size_t alternative = no_alternative;  ///< with cause::alternatives: the index in limiter_options::alternatives
};

/// A request that waits, as a page may show it.
struct waiting_request {
  std::uint64_t tag = 0;     ///< its request.tag
  int priority = 0;          ///< the class of its request
  std::uint64_t tokens = 0;  ///< the tokens of the first unit that it wants
  time_point since{};        ///< its arrival, or its request.since
  duration estimate{};       ///< a lower bound on its wait from now on, unless a later request goes before it
  /// The limit that it waits for once the waiters before it have gone. The places that those waiters take count only if
  /// no rate holds the request up, because some may be free again by then.
  wait_reason reason;
  std::uint64_t alternatives = 0;  ///< the set of those that may serve it; 0: the limit has none
};

/// For how long each limit was the one that the first waiter lacked. Time in which no request waited counts for none.
struct binding_stats {
  std::vector<duration> rates;
  duration concurrency{};
  duration share{};
  duration paused{};
  duration flow{};          ///< the ceilings or pauses of their flows held all waiters
  duration alternatives{};  ///< no alternative that may serve the first waiter had room
};

}  // namespace canigo
