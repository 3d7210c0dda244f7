#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::redis::detail {

/// The longest round trip that a lease tolerates: half of the time for which a permit may be used.
constexpr duration longest_round_trip(duration lease) noexcept { return lease / 20 * 9; }

/// A process's session at one limit in Redis: its name, its lease, and the server's time.
///
/// A new session is unknown to Redis and holds nothing. The first call registers it, and each later call renews its
/// lease. The lease starts when the answered call was sent. It ends in the process before it ends in Redis. The process
/// then begins another session with another name, so that a late message to the old session has no effect.
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

  /// Whether Redis knows this session, according to its last answer.
  bool is_registered() const noexcept { return is_registered_; }
  /// Whether granted permits may still be used.
  bool lasts(std::int64_t awake) const noexcept { return awake < lease_until_; }
  /// Whether Redis knew this session, and its lease has ended.
  bool is_lost(std::int64_t awake) const noexcept { return is_registered_ && !lasts(awake); }
  duration left(std::int64_t awake) const noexcept { return duration{lease_until_ - awake}; }

  std::uint64_t next_call() const noexcept { return calls_ + 1; }
  void call_begins(std::int64_t awake, bool leaves) noexcept;
  /// Call it if the call had to wait for a connection: its lease starts when it was really sent.
  void sent(std::int64_t awake) noexcept { sent_at_ = awake; }
  /// Whether the last call belongs to this session. False if its answer came after the session's end.
  bool has_call() const noexcept { return number_of_call_ == number_; }
  /// Call it if Redis has not run the script: the next call has the same number.
  void was_not_run() noexcept { --calls_; }
  /// Call it when Redis has run the script. `there`: the server's time in microseconds. The lease is renewed from the
  /// time when the call was sent.
  void answered(std::int64_t awake, std::int64_t there) noexcept;
  /// How long after the answer the lease must be renewed.
  duration renew_in(std::int64_t awake) const noexcept { return lease_ / 3 - duration{awake - sent_at_}; }
  /// How long the last answered call took, if that was too long for the lease; otherwise 0.
  duration too_slow() const noexcept { return too_slow_; }

  /// The latest possible time on the server that runs the script, in microseconds; 0 if it is not known well enough.
  std::int64_t latest_there(std::int64_t awake) const noexcept;
  std::int64_t epoch() const noexcept { return epoch_; }
  /// Stores the epoch of an answer. Returns true if it has changed: Redis has lost data, and may have forgotten the
  /// waiters.
  bool follow(std::int64_t epoch) noexcept;
  /// The greatest token that this process has seen.
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
  std::int64_t told_at_ = 0;   // when the last answered call was sent
  std::int64_t told_now_ = 0;  // the server's time in the last answer; 0: no call was answered yet
  duration too_slow_{};
  std::int64_t epoch_ = 0;
  std::uint64_t last_token_ = 0;
};

}  // namespace canigo::redis::detail
