#pragma once

#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace canigo {

/// How a keyed limit treats a new key when it has `most_keys` keys already.
enum class overflow_of_keys {
  refuse,     ///< try_acquire says no, and acquire ends with errc::too_many_keys
  share_one,  ///< all such keys share the limit of one key, and may have one of their own later
};

struct keyed_scheduler_options {
  canigo::rate rate;                ///< tokens of each key per period
  std::uint64_t burst = 1;          ///< most tokens of a key, and most for one request; 1 to 2^62. New keys have it
  std::size_t most_keys = 100'000;  ///< most keys that it knows at once, 1 to 2^29
  overflow_of_keys on_new_key = overflow_of_keys::refuse;  ///< how it treats a new key then
  std::size_t most_waiting = 100'000;                      ///< most waiters, of all keys together; 1 or more
  int priorities = 1;               ///< classes 0 (first) … priorities-1, among the waiters of a key; 1 to 1024
  std::size_t queue_limit = 1'000;  ///< most waiters of a key, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< of the queue of a key; any but overflow::wait
  duration ageing = duration::max();            ///< a waiter rises one class per `ageing` waited; max: never
  std::string name = {};                        ///< for the texts of errors
};

struct keyed_semaphore_options {
  std::uint64_t permits = 1;                               ///< most of a key that are out at once, 1 to 2^62
  std::size_t most_keys = 100'000;                         ///< most keys that have permits out or waiters, 1 to 2^29
  overflow_of_keys on_new_key = overflow_of_keys::refuse;  ///< how a new key beyond `most_keys` is treated
  std::size_t most_waiting = 100'000;                      ///< most waiters, of all keys together; 1 or more
  int priorities = 1;               ///< classes 0 (first) … priorities-1, among the waiters of a key; 1 to 1024
  std::size_t queue_limit = 1'000;  ///< most waiters of a key, of all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< of the queue of a key; any but overflow::wait
  duration ageing = duration::max();            ///< a waiter rises one class per `ageing` waited; max: never
  std::string name = {};                        ///< for the texts of errors
};

struct keyed_stats {
  std::size_t keys = 0;       ///< keys that it knows: their limit is not as good as new
  std::size_t most_keys = 0;  ///< the most keys that there can be
  std::size_t keys_with_waiters = 0;
  std::size_t waiting = 0;      ///< waiters, of all keys
  std::uint64_t granted = 0;    ///< requests that were granted, at once or after a wait
  std::uint64_t refused = 0;    ///< requests that were refused at once
  std::uint64_t given_up = 0;   ///< requests that waited and were not granted: cancelled, timed out, stopped
  std::uint64_t beyond = 0;     ///< requests of new keys when there were too many: refused, or sent to share
  std::uint64_t forgotten = 0;  ///< keys that were as good as new, and were removed to make room
  std::size_t bytes = 0;        ///< bytes of the tables, without the memory of long keys on the heap
};

}  // namespace canigo
