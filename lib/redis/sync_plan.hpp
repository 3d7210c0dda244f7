#pragma once

#include "canigo/algorithms/token_bucket.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/net.hpp"
#include "canigo/redis/detail/limit_request.hpp"
#include "canigo/redis/failure_mode.hpp"
#include "canigo/time.hpp"

#include "sync.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// Decides when a limit calls Redis next, how long the call may take, and how requests are treated while Redis does not
/// answer.
///
/// Its owner reports events: a call begins, succeeds or fails; Redis sends a hint; a request comes. The plan answers
/// three questions: when to call, when to examine the waiters again, and how to decide a request without Redis. It is a
/// value without a lock, a client or waiters.
class sync_plan {
 public:
  struct options {
    duration lease{};
    duration give_up = duration::max();  // in mode closed: how long a waiter waits during an outage
    failure_mode on_failure = failure_mode::closed();
    std::size_t rates = 1;
    /// An alternative: the numbers of its rates in limit_settings, from `first` on and before `end`.
    struct alternative {
      std::size_t first = 0;
      std::size_t end = 0;
      int prefer = 1;
    };
    std::vector<alternative> alternatives = {};
  };

  /// The state of the limit that decides whether and when it must call Redis.
  struct needs {
    bool is_registered = false;  // whether Redis knows the session of this process
    bool has_waiters = false;
    bool has_fresh = false;       // whether there are waiters that Redis does not know
    bool is_engaged = false;      // whether there are waiters, held permits, or idle permits or tokens
    bool has_returns = false;     // whether permits were given back, or waiters that Redis knows have left
    bool has_changes = false;     // whether settings were changed, or tokens charged
    bool may_hold_there = false;  // whether Redis may count permits or tokens as held by this process
    bool is_leaving = false;      // whether the limit was stopped, and holds nothing
  };

  sync_plan(const options& o, std::uint64_t random);

  /// Call it when Redis may have a grant for this limit.
  void hint() noexcept { is_hinted_ = true; }
  /// Notes that a call at `t` may bring grants.
  void is_useful_at(time_point t) noexcept;
  /// Call it when a caller requests a grant.
  void request_came() noexcept;
  /// Call it when a call begins. Redis usually answers within `answer_within`; 0: unknown.
  void call_begins(time_point now, duration answer_within) noexcept;
  /// Call it when a call could not be made. The next call is not made before `t`.
  void call_again_at(time_point t) noexcept { retry_at_ = t; }
  /// Call it when the call has ended. Then call another function of this section for its result.
  void call_ended() noexcept { is_under_way_ = false; }
  /// Call it when Redis did not run the script, or asks this process to register again. The next call is made without a
  /// delay.
  void call_again() noexcept { is_wanted_ = is_failing_; }
  /// Call it when Redis works. This ends an outage.
  void recovered() noexcept;
  /// Call it when the call has succeeded. The lease must be renewed after `renew_in`.
  void answered(time_point now, duration renew_in) noexcept;
  /// Call it when the call has failed. Returns true if this begins an outage.
  bool failed(time_point now, std::error_code cause, std::string text, bool is_permanent,
              const limit_settings& s) noexcept;
  /// Call this function when the client knows why Redis does not answer, even if the call of the script has not ended.
  /// Returns true if an outage begins by this failure.
  bool fails(std::error_code cause, std::string text, bool is_permanent) noexcept;
  /// Returns true once for each call: when the requests that can't wait for its answer must be decided.
  bool turns_late(time_point now) noexcept;
  /// From now on, requests are decided without Redis until the late call has ended.
  void do_without_until_answer(const limit_settings& s) noexcept;
  /// Call it when this process has changed a rate or a burst. The process's share changes immediately.
  void rates_changed(time_point now, const limit_settings& s) noexcept;
  /// Call it when the client is closed. No more calls are made.
  void stop() noexcept;

  /// When to call Redis; max() if no call is needed yet.
  time_point next_call(const needs& n, time_point now) const noexcept;
  /// When to examine the waiters without a call; max() if no time is known.
  time_point next_look(const needs& n, time_point now) const noexcept;
  /// The time limit of the next call, from the request to the answer.
  duration time_limit(const needs& n, duration answer_within) const noexcept;

  bool is_under_way() const noexcept { return is_under_way_; }
  time_point called_at() const noexcept { return called_at_; }
  bool is_before_retry(time_point now) const noexcept { return now < retry_at_; }

  bool is_failing() const noexcept { return is_failing_; }
  std::error_code cause() const noexcept { return cause_; }
  const std::string& cause_text() const noexcept { return cause_text_; }
  /// Whether requests are refused while Redis does not answer, as in mode closed. In every mode, requests are also
  /// refused if processes with other options or of another version use the limit.
  bool is_closed() const noexcept;
  /// Whether the running call takes too long for requests that can't wait.
  bool is_late(time_point now) const noexcept { return is_under_way_ && now >= late_at_; }
  /// Whether Redis is known not to answer. `has_trouble`: the client has no connection.
  bool is_away(time_point now, bool has_trouble) const noexcept;
  /// Whether this process serves its waiters without Redis. It is false again after a while without requests: Redis may
  /// have come back, so the next request asks it first.
  bool may_do_without(time_point now) const noexcept;
  /// Decides a request without Redis. The result is no error for a grant, would_block for "not now", or the error. A
  /// request for more than this process's share of a burst gets errc::store_unavailable.
  ///
  /// With alternatives, `set` has the alternatives that may serve the request. After a grant, `from` is the alternative
  /// that serves it.
  std::error_code decide(time_point now, const canigo::detail::demand& wanted, time_point paused_until,
                         const limit_settings& s, std::uint64_t set = 0, std::size_t* from = nullptr) noexcept;
  /// Call it when the first waiter must wait for this process's share of the rates. Then next_look() returns when to
  /// decide again.
  void look_again_for(time_point now, const canigo::detail::demand& wanted, time_point paused_until) noexcept;
  /// Like look_again_for(), for a limit with alternatives, whose waiters may wait for different alternatives. Call
  /// look_again_for_none() first, and then look_again_for_any() for each waiter that must wait. `set`: the alternatives
  /// that may serve the waiter and are not paused. `resumes_at`: when the first of the pauses of alternatives ends.
  void look_again_for_none() noexcept { share_at_ = time_point::max(); }
  void look_again_for_any(time_point now, const canigo::detail::demand& wanted, std::uint64_t set,
                          time_point resumes_at) noexcept;
  /// Whether this process's share of the common rates has the tokens of a request.
  bool has_common_share(time_point now, const canigo::detail::demand& wanted) noexcept;
  /// The error with which a request is refused immediately because Redis fails; no error if the request may wait.
  std::error_code refusal(bool waits) const noexcept;
  /// When a request ends without a grant. That is its deadline, or in mode closed the end of its `give_up` in an
  /// outage. In the other modes it is at first a little before the deadline: at that time the request may be decided
  /// without Redis.
  time_point end_of(const limit_request& r) const noexcept;

 private:
  struct rate_share {
    token_bucket bucket;
    std::size_t unit;
  };
  std::span<rate_share> own_shares() noexcept;
  std::span<rate_share> shares_of(const options::alternative& a) noexcept;
  static bool fits(std::span<rate_share> shares, const canigo::detail::demand& wanted) noexcept;
  static bool has(std::span<rate_share> shares, time_point now, const canigo::detail::demand& wanted) noexcept;
  static void take(std::span<rate_share> shares, time_point now, const canigo::detail::demand& wanted) noexcept;
  static time_point ready_at(std::span<rate_share> shares, time_point now,
                             const canigo::detail::demand& wanted) noexcept;
  std::error_code choose(time_point now, const canigo::detail::demand& wanted, std::uint64_t set,
                         std::size_t& from) noexcept;
  std::error_code choose_next(std::uint64_t set, std::size_t& from) noexcept;
  bool is_due(const needs& n) const noexcept;
  bool has_news(const needs& n) const noexcept;
  void begin_share(time_point since, const limit_settings& s) noexcept;
  std::pair<canigo::rate, std::uint64_t> share_of(const rate_setting& r) const noexcept;

  const options options_;

  // The following members describe the calls.
  bool is_under_way_ = false;
  bool is_decided_ = false;  // whether the requests that can't wait for the running call were decided
  bool is_hinted_ = false;
  bool is_wanted_ = false;  // whether requests came since the last call; only used in an outage
  time_point called_at_ = time_point::min();
  time_point late_at_ = time_point::max();
  time_point renew_at_ = time_point::max();
  time_point next_at_ = time_point::max();   // when the next call becomes useful
  time_point retry_at_ = time_point::min();  // no call is made before this time

  // The following members describe an outage.
  bool is_failing_ = false;
  bool is_permanent_ = false;  // whether another call would fail, too
  std::error_code cause_;
  std::string cause_text_;
  time_point failing_since_ = time_point::max();
  // while an outage is known: until this time, requests need not ask Redis first
  time_point known_until_ = time_point::min();
  std::uint32_t failures_ = 0;
  std::uint64_t random_;
  std::size_t turn_ = 0;  // in mode open: the alternative that serves the next request, if its `prefer` allows it

  // Whether this process has begun to grant from its share of the rates. The share fills from then on.
  bool has_share_ = false;
  std::vector<rate_share> shares_;  // this process's share of each rate; the constructor has reserved the memory
  time_point share_at_ = time_point::max();  // when the share may have enough tokens for the first waiter
};

}  // namespace canigo::redis::detail
