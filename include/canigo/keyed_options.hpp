#pragma once

#include "canigo/rate.hpp"
#include "canigo/request.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace canigo {

/// How a keyed limit treats a new key when it already has `most_keys` keys.
enum class overflow_of_keys {
  refuse,     ///< try_acquire() returns false, and acquire() ends with errc::too_many_keys
  share_one,  ///< new keys share one limit; a key may get its own limit later, when the table has room
};

struct keyed_scheduler_options {
  canigo::rate rate;  ///< tokens released per period, for each key
  /// Max number of tokens of a key, and for one request; 1 to 2^62. A new key starts with `burst` tokens.
  std::uint64_t burst = 1;
  std::size_t most_keys = 100'000;                         ///< max number of keys in the table, 1 to 2^29
  overflow_of_keys on_new_key = overflow_of_keys::refuse;  ///< how a new key is treated while `most_keys` keys exist
  std::size_t most_waiting = 100'000;                      ///< max number of waiters, all keys together; 1 or more
  /// Number of priority classes among the waiters of one key, 1 to 1024; class 0 goes first.
  int priorities = 1;
  std::size_t queue_limit = 1'000;              ///< max number of waiters of one key, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a key's full queue treats a request; overflow::wait is invalid
  duration ageing = duration::max();            ///< waiting time after which a waiter rises by one class; max: never
  std::string name = {};                        ///< appears in error messages
};

struct keyed_semaphore_options {
  std::uint64_t permits = 1;        ///< max number of permits of one key in use at once, 1 to 2^62
  std::size_t most_keys = 100'000;  ///< max number of keys with permits in use or waiters, 1 to 2^29
  overflow_of_keys on_new_key = overflow_of_keys::refuse;  ///< how a new key is treated while `most_keys` keys exist
  std::size_t most_waiting = 100'000;                      ///< max number of waiters, all keys together; 1 or more
  /// Number of priority classes among the waiters of one key, 1 to 1024; class 0 goes first.
  int priorities = 1;
  std::size_t queue_limit = 1'000;              ///< max number of waiters of one key, all classes together; 1 or more
  overflow on_overflow = overflow::reject_new;  ///< how a key's full queue treats a request; overflow::wait is invalid
  duration ageing = duration::max();            ///< waiting time after which a waiter rises by one class; max: never
  std::string name = {};                        ///< appears in error messages
};

struct keyed_stats {
  std::size_t keys = 0;       ///< keys in the table; a key is in it while its state differs from that of a new key
  std::size_t most_keys = 0;  ///< max number of keys in the table
  std::size_t keys_with_waiters = 0;
  std::size_t waiting = 0;      ///< number of waiters, all keys together
  std::uint64_t granted = 0;    ///< requests that were granted, immediately or after a wait
  std::uint64_t refused = 0;    ///< requests that were refused immediately
  std::uint64_t given_up = 0;   ///< requests that waited and were cancelled, timed out or stopped
  std::uint64_t beyond = 0;     ///< requests of new keys in a full table: refused, or granted by the shared limit
  std::uint64_t forgotten = 0;  ///< keys that were dropped to make room; each had the same state as a new key
  std::size_t bytes = 0;        ///< memory of the tables in bytes, without heap memory that the keys own
};

}  // namespace canigo
