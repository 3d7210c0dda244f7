#pragma once

#include "canigo/time.hpp"

#include <cstdint>
#include <string>

namespace canigo::redis::detail {

/// The longest round trip that a lease can stand: half of the time for which a permit may be used.
constexpr duration longest_round_trip(duration lease) noexcept { return lease / 20 * 9; }

/// A process as Redis knows it at one limit: its name there, its lease, and the time there.
///
/// A session begins unknown to Redis and holds nothing. A call registers it, and each further call renews its lease.
/// The lease counts from when an answered call was sent, and ends here before it ends in Redis. The process then begins
/// another session, with another name, so that no late message to the old one can count.
///
/// `awake` is in nanoseconds of a clock that goes on while the machine sleeps.
class session {
 public:
  /// `base` is the part of the name that all sessions of this limit in this process have.
  session(std::string base, duration lease, bool has_permits);

  /// Begins the next session.
  void begin() noexcept;

  const std::string& name() const noexcept { return name_; }
  std::string name_of(std::uint64_t number) const { return base_ + std::to_string(number); }
  std::uint64_t number() const noexcept { return number_; }

  // ---- the lease ----

  /// Whether Redis knows this session, as far as is known here.
  bool is_registered() const noexcept { return is_registered_; }
  /// Whether what was granted may still be used.
  bool lasts(std::int64_t awake) const noexcept { return awake < lease_until_; }
  /// Whether Redis knew this session, and its lease has ended.
  bool is_lost(std::int64_t awake) const noexcept { return is_registered_ && !lasts(awake); }
  duration left(std::int64_t awake) const noexcept { return duration{lease_until_ - awake}; }

  // ---- calls ----

  /// The number of the next call.
  std::uint64_t next_call() const noexcept { return calls_ + 1; }
  void call_begins(std::int64_t awake, bool leaves) noexcept;
  /// Call it when the call has waited for a connection, and was sent only then.
  void sent(std::int64_t awake) noexcept { sent_at_ = awake; }
  /// Whether the call that began last belongs to this session. False if its answer came too late.
  bool has_call() const noexcept { return number_of_call_ == number_; }
  /// Call it when Redis has not run the script: the next call has the same number.
  void was_not_run() noexcept { --calls_; }
  /// Call it when Redis has run the script. `there`: the time of Redis, in us. The lease begins anew from when the call
  /// was sent.
  void answered(std::int64_t awake, std::int64_t there) noexcept;
  /// When the lease is to be renewed, seen from the answer.
  duration renew_in(std::int64_t awake) const noexcept { return lease_ / 3 - duration{awake - sent_at_}; }
  /// If the last answered call took too long for the lease: how long it took. Otherwise 0.
  duration too_slow() const noexcept { return too_slow_; }

  // ---- Redis' memory ----

  /// The latest time that it can be on the server that runs the script, in us; 0 if that is not known well enough.
  std::int64_t latest_there(std::int64_t awake) const noexcept;
  std::int64_t epoch() const noexcept { return epoch_; }
  /// Takes over the epoch of an answer. True if it is another one than before: Redis has lost data, and may have
  /// forgotten the waiters.
  bool follow(std::int64_t epoch) noexcept;
  /// The greatest token that is known here.
  std::uint64_t last_token() const noexcept { return last_token_; }
  void see(std::uint64_t token) noexcept;

 private:
  const std::string base_;
  const duration lease_;
  const bool has_permits_;
  std::string name_;
  std::uint64_t number_ = 0;
  std::uint64_t number_of_call_ = 0;  // the session that it belongs to
  std::uint64_t calls_ = 0;
  bool is_registered_ = false;
  bool leaves_ = false;  // the call under way says that the session leaves
  std::int64_t lease_until_ = 0;
  std::int64_t sent_at_ = 0;
  std::int64_t told_at_ = 0;   // when the call was sent that was answered last
  std::int64_t told_now_ = 0;  // the server's time in that answer; 0: there was none
  duration too_slow_{};
  std::int64_t epoch_ = 0;
  std::uint64_t last_token_ = 0;
};

}  // namespace canigo::redis::detail
