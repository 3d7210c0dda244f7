#pragma once

#include "canigo/time.hpp"
#include "canigo/unit_amounts.hpp"

#include <cstdint>

namespace canigo {

class flow;

/// A request to a limit: how much, how important, and until when a grant is of use.
struct request {
  int priority = 0;                    ///< class, 0 (first) … priorities-1
  std::uint64_t tokens = 1;            ///< 1 or more; more than the burst is errc::too_large
  deadline_point deadline = {};        ///< a grant later than this is of no use
  const canigo::flow* flow = nullptr;  ///< the share of the limit that it takes; null: a nameless flow of weight 1
  unit_amounts amounts = {};           ///< how much of each other unit, for a limiter whose rates have several
  std::uint64_t tag = 0;               ///< a number of the caller's choice; the limit's waiting() shows it
  /// For a repeat: when it arrived first. Its place in its class, its ageing and its wait count from then. An instant
  /// in the future counts as now. In a limit with flows, this is its place in its flow; between flows, shares decide.
  time_point since = time_point::max();
};

/// How a full queue treats a newcomer.
enum class overflow {
  reject_new,             ///< the newcomer ends with errc::queue_full
  evict_oldest,           ///< the waiter that waits longest ends with errc::evicted and makes room
  evict_least_important,  ///< the youngest of the least important class does, if it matters less than the newcomer's;
                          ///< with flows, see canigo::flow
  wait,                   ///< the newcomer is held back until there is room; for run() and async_run() of pools only
};

}  // namespace canigo
