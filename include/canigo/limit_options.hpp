#pragma once

#include "canigo/time.hpp"

namespace canigo {

/// Whether a limit or a policy enforces its decisions, or only counts them.
enum class enforcement {
  enforce,  ///< requests are refused or delayed
  shadow,   ///< grants each request immediately; the statistics count requests that `enforce` would refuse or delay
};

/// When a limit ends waiters with errc::shed, because it is overloaded. Default: never.
///
/// A class is overloaded if during a whole `interval` each of its requests has waited at least `target`. Then the limit
/// ends the requests that have waited longer than twice the target, the least important class first. The limit stops
/// shedding when the class serves a request in less than the target again. So requests that are still young are
/// answered in time. If only one waiter is left in the limit, it is not shed, so that freed slots and tokens are used.
///
/// In a limit with flows, each class of each flow is judged separately. So delays of one flow end no waiter of another.
/// The time for which a flow's own ceiling held back a waiter counts as delay.
///
/// Use shedding for a limit in front of work that usually keeps up, such as a semaphore in front of a database. Don't
/// use it for a rate-limited queue that is meant to be long.
///
/// Source: K. Nichols, V. Jacobson, "Controlling Queue Delay", ACM Queue 2012. The threshold of twice the target and
/// `newest_first`: B. Maurer, "Fail at Scale", ACM Queue 2015.
struct shedding_options {
  duration target = duration::max();  ///< the longest acceptable wait; more than 0; max: never shed
  /// how long all waits must exceed the target before shedding begins; choose the length of the longest burst that is
  /// no overload; more than 0
  duration interval = std::chrono::milliseconds{100};
  bool newest_first = false;  ///< whether an overloaded class grants its newest waiter first
};

}  // namespace canigo
