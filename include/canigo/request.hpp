#pragma once

#include "canigo/time.hpp"

#include <cstdint>

namespace canigo {

/// What is asked for, how important it is, and until when it is of use.
struct request {
  int priority = 0;              ///< class, 0 (first) … priorities-1
  std::uint64_t tokens = 1;      ///< 1 or more; more than the burst is errc::too_large
  deadline_point deadline = {};  ///< a grant later than this is of no use
};

/// What happens to a newcomer when the queue is full.
enum class overflow {
  reject_new,             ///< it ends with errc::queue_full
  evict_oldest,           ///< whoever waits longest ends with errc::evicted and makes room
  evict_least_important,  ///< the youngest of the least important class does, if it matters less than the newcomer's
  wait,                   ///< the producer is held back; for strand_pool::run only
};

}  // namespace canigo
