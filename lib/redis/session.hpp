#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::redis::detail {

/// The longest round trip that a lease tolerates. A permit may be used for 90 % of the lease; the round trip may take
/// half of that time.
constexpr duration longest_round_trip(duration lease) noexcept { return lease / 20 * 9; }

/// A process's session at one limit in Redis: its name, its lease, and the server's time.
///
/// A new session is unknown to Redis and holds nothing. The first call registers it, and each later call renews its
/// lease. The lease counts from the time when the process sent the latest call that Redis has answered. In the process,
/// the lease ends before it ends in Redis. After its end, the process begins another session with another name. So a
/// late message to the old session has no effect.
///
/// `awake`: nanoseconds of a clock that also runs while the machine sleeps.
class session {
 public:
  /// `base`: the part of the name that all sessions of this limit in this process have in common.
  session(std::string base, duration lease, bool has_permits);

  void begin() noexcept;

  const std::string& name() const noexcept { return name_; }
  std::string name_of(std::uint64_t number) const { return base_ + std::to_string(number); }
  std::uint64_t number() const noexcept { return number_; }

  /// Whether Redis knows this session, according to the last answer of Redis.
  bool is_registered() const noexcept { return is_registered_; }
  /// Whether the lease still lasts at `awake`, so that granted permits may be used.
  bool lasts(std::int64_t awake) const noexcept { return awake < lease_until_; }
  /// Whether this session was registered in Redis, and its lease has ended.
  bool is_lost(std::int64_t awake) const noexcept { return is_registered_ && !lasts(awake); }
  duration left(std::int64_t awake) const noexcept { return duration{lease_until_ - awake}; }

  std::uint64_t next_call() const noexcept { return calls_ + 1; }
  void call_begins(std::int64_t awake, bool leaves) noexcept;
  /// Call it if a call of the script had to wait for a connection. The lease is then renewed from `awake`, the time at
  /// which the call was really sent.
  void sent(std::int64_t awake) noexcept { sent_at_ = awake; }
  /// Whether the last call of the script belongs to the current session. False if another session has begun since the
  /// call.
  bool has_call() const noexcept { return number_of_call_ == number_; }
  /// Call it if Redis has not run the script. The next call of the script then gets the same number again.
  void was_not_run() noexcept { --calls_; }
  /// Call it when Redis has run the script. `there`: the server's time in microseconds. The lease is renewed from the
  /// time when the call was sent.
  void answered(std::int64_t awake, std::int64_t there) noexcept;
  /// The time from `awake` until the lease must be renewed: when a third of the lease's duration has passed since the
  /// last call was sent.
  duration renew_in(std::int64_t awake) const noexcept { return lease_ / 3 - duration{awake - sent_at_}; }
  /// The time between the sending and the answer of the latest call that has an answer, if this time was too long for
  /// the lease. Otherwise 0.
  duration too_slow() const noexcept { return too_slow_; }

  /// The latest time that the clock of the Redis server may show at `awake`, in microseconds. 0 if that time is
  /// unknown, for example because no call was answered yet. It is also unknown if the last answer is so old that the
  /// clocks may have drifted too far apart.
  std::int64_t latest_there(std::int64_t awake) const noexcept;
  std::int64_t epoch() const noexcept { return epoch_; }
  /// Stores the epoch of an answer. Returns true if the epoch has changed. In that case Redis has lost data, and may
  /// have forgotten the waiters.
  bool follow(std::int64_t epoch) noexcept;
  /// The greatest fencing token that this process has seen.
  std::uint64_t last_token() const noexcept { return last_token_; }
  void see(std::uint64_t token) noexcept;

 private:
  const std::string base_;
  const duration lease_;
  const bool has_permits_;
  std::string name_;
  std::uint64_t number_ = 0;
  std::uint64_t number_of_call_ = 0;  // the number of the session to which the last call belongs
  std::uint64_t calls_ = 0;
  bool is_registered_ = false;
  bool leaves_ = false;  // whether the running call tells Redis that the session ends
  std::int64_t lease_until_ = 0;
  std::int64_t sent_at_ = 0;
  std::int64_t told_at_ = 0;   // the time at which the process sent the latest call that has an answer
  std::int64_t told_now_ = 0;  // the server's time in the last answer; 0: no call was answered yet
  duration too_slow_{};
  std::int64_t epoch_ = 0;
  std::uint64_t last_token_ = 0;
};

}  // namespace canigo::redis::detail
