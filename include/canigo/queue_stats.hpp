#pragma once

#include "canigo/algorithms/histogram.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace canigo {

/// The statistics of one priority class: the number of waiters, the number of granted requests, and their waits.
struct class_stats {
  std::size_t waiting = 0;
  std::uint64_t granted = 0;
  wait_histogram wait;  ///< the waits of granted requests, from call to grant
};

/// Counts how the requests that shadow mode granted immediately would have ended without shadow mode.
///
/// If a request would have waited, it is counted at the instant at which that wait would have ended.
struct shadow_stats {
  std::uint64_t waited = 0;  ///< requests that would have waited for their grant without shadow mode
  /// requests that would have failed without shadow mode: too large, nothing available, queue full, evicted, or too
  /// late
  std::uint64_t refused = 0;
  std::uint64_t shed = 0;  ///< requests that would have been shed without shadow mode
  wait_histogram wait;     ///< how long the requests in `waited` would have waited
};

/// The number of requests that were refused immediately, by cause.
struct rejection_stats {
  std::uint64_t not_there = 0;    ///< try_acquire() found too few tokens or permits, or another request was waiting
  std::uint64_t queue_full = 0;   ///< the queue of the limit, or of its flow, was full
  std::uint64_t unreachable = 0;  ///< even the shortest possible wait ends after the deadline
  std::uint64_t too_large = 0;    ///< the request exceeds what the limit, or its flow, can ever grant
  std::uint64_t invalid = 0;      ///< an argument was out of range
  std::uint64_t other = 0;        ///< other causes, such as no memory
};

/// The number of requests so far, by how they ended. All members are read at one instant.
///
/// At every instant requested = waiting + granted + cancelled + timed_out + evicted + rejected + stopped + shed.
struct queue_stats {
  std::vector<class_stats> classes;
  std::size_t waiting = 0;
  std::uint64_t requested = 0;
  std::uint64_t granted = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t timed_out = 0;  ///< requests whose deadline passed while they waited
  std::uint64_t evicted = 0;
  std::uint64_t rejected = 0;  ///< requests that were refused immediately; the sum of `rejections`
  std::uint64_t stopped = 0;
  std::uint64_t shed = 0;  ///< requests that were ended because the limit was overloaded
  rejection_stats rejections;
};

/// The value that stands for "no alternative" where the index of a limiter's alternative is expected.
inline constexpr std::size_t no_alternative = ~std::size_t{0};

/// The value that stands for "no sublimit" where the number of a limiter's sublimit is expected.
inline constexpr int no_sublimit = -1;

/// Why a request of a limit has to wait.
struct wait_reason {
  enum class cause {
    none,          ///< no request waits
    paused,        ///< the limit is paused by pause_until()
    rate,          ///< the rate at `index` lacks tokens; if several rates lack tokens, it is the last to have enough
    concurrency,   ///< all permits are in use
    share,         ///< all slots of the shared cap are in use
    flow,          ///< each waiter is delayed by a limit or a pause of its own flow; see `ceiling`
    alternatives,  ///< no alternative of the request has free capacity; see `alternative` and `ceiling`
    sublimit,      ///< the request's sublimit has no free capacity; see `sublimit` and `ceiling`
  };
  cause binds = cause::none;
  /// If a flow, an alternative or a sublimit holds up the request: which of its limits does so. With cause::flow: the
  /// flow's rate at `index`, its concurrency, or a pause. With cause::alternatives: a rate, the cap or a pause of the
  /// alternative that can serve the request first. With cause::sublimit: a rate or the cap of the request's sublimit.
  cause ceiling = cause::none;
  std::size_t index = 0;                     ///< with cause::rate: the index of the rate in limiter_options::rates
  time_point until = time_point::max();      ///< when the cause ends; max: a resume() or a released permit ends it
  std::size_t alternative = no_alternative;  ///< with cause::alternatives: the index of the alternative in the options
  int sublimit = no_sublimit;                ///< with cause::sublimit: the number of the sublimit
};

/// A waiting request, in a form that an admin page can show.
struct waiting_request {
  std::uint64_t tag = 0;     ///< the `tag` of the request
  int priority = 0;          ///< the priority class of the request
  std::uint64_t tokens = 0;  ///< the requested tokens of the first unit
  time_point since{};        ///< the request's field `since` if it is set, otherwise when the request arrived
  duration estimate{};       ///< a lower bound on the remaining wait if all waiters before this one are granted first
  /// The limit that still delays this request after all waiters before it are granted. If a rate delays this request,
  /// the slots of those waiters do not count as taken, because their calls may have ended before the grant of this
  /// request.
  wait_reason reason;
  /// The alternatives that may serve this request, as a bit mask. 0: the limit has no alternatives.
  std::uint64_t alternatives = 0;
  int sublimit = no_sublimit;  ///< the index of the sublimit that this request names
};

/// For how long each limit was the limit that held up the first waiter. Time without waiters is not counted.
struct binding_stats {
  std::vector<duration> rates;
  duration concurrency{};
  duration share{};
  duration paused{};
  duration flow{};          ///< the time during which each waiter was delayed by a limit or a pause of its own flow
  duration alternatives{};  ///< how long no alternative that may serve the first waiter had free capacity
  duration sublimit{};      ///< how long the sublimit of the first waiter had no free capacity
};

}  // namespace canigo
