#pragma once

#include "canigo/time.hpp"

namespace canigo {

/// Whether a limit or a policy acts on its decisions, or only counts them.
enum class enforcement {
  enforce,  ///< refuses and delays
  shadow,   ///< each request goes at once; the statistics count those that it would have refused or delayed
};

/// When a limit ends waiters with errc::shed, because it is overloaded. Default: never.
///
/// A class is overloaded while for a whole `interval` none of its requests has waited less than `target`. Then the
/// requests that have waited longer than twice the target are ended, the least important class first, until the class
/// serves one in less than the target again. So callers that still want an answer get one. The last waiter of all is
/// never shed, so that a place or token that comes finds a waiter.
///
/// In a limit with flows, "a class" means a class of a flow here. So the delays of one flow end no waiter of another.
/// The time for which a flow's own ceiling held it back counts.
///
/// Use it for a limit in front of work that keeps up when it is not overloaded, such as a semaphore in front of a
/// database. A rate-limited queue that is long by intent should not have it.
///
/// Source: K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue 2012; the threshold of twice the target and
/// the last arrival first: B. Maurer, "Fail at Scale", ACM Queue 2015.
struct shedding_options {
  duration target = duration::max();                   ///< a wait that is good enough; more than 0; max: never shed
  duration interval = std::chrono::milliseconds{100};  ///< more than 0; about the longest burst that is no overload
  bool newest_first = false;                           ///< in an overloaded class, the last arrival is granted first
};

}  // namespace canigo
