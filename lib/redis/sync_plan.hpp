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
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// When a limit calls Redis next, how long the call may take, and what becomes of requests while Redis does not answer.
///
/// The ledger tells it the news: a call begins, succeeds, or fails; Redis has a hint; a request comes. It answers three
/// questions: when to call, when to look again, and how to decide a request without Redis. It knows no client and no
/// waiter, and has no lock.
class sync_plan {
 public:
  struct options {
    duration lease{};
    duration give_up = duration::max();  // closed: waiters end after so long without an answer
    failure_mode on_failure = failure_mode::closed();
    std::size_t rates = 1;
  };

  /// The news and the questions that the limit has for Redis at this moment.
  struct needs {
    bool is_registered = false;  // Redis knows the session
    bool has_waiters = false;
    bool has_fresh = false;       // Redis does not know some of the waiters
    bool is_engaged = false;      // there are waiters, permits, or idle permits or tokens
    bool has_returns = false;     // permits were given back, or waiters that Redis knows have left
    bool has_changes = false;     // settings were changed, or charges made
    bool may_hold_there = false;  // Redis may count something as held here
    bool is_leaving = false;      // the limit was stopped, and holds nothing
  };

  sync_plan(const options& o, std::uint64_t random);

  // ---- news ----

  /// Call it when Redis may have something for this limit.
  void hint() noexcept { is_hinted_ = true; }
  /// Notes that a call at that time may bring grants.
  void is_useful_at(time_point t) noexcept;
  /// A caller asks for a grant.
  void request_came() noexcept;
  /// Call it when a call begins. Redis usually answers within `answer_within`; 0 if the line is unknown.
  void call_begins(time_point now, duration answer_within) noexcept;
  /// The call could not be made: try again then.
  void call_again_at(time_point t) noexcept { retry_at_ = t; }
  /// Call it when the call has ended. The call of another member says how it ended.
  void call_ended() noexcept { is_under_way_ = false; }
  /// Redis did not run the script, or asks this process to register anew: call again at once.
  void call_again() noexcept { is_wanted_ = is_failing_; }
  /// Redis works: the outage is over, if there was one.
  void recovered() noexcept;
  /// Call it when Redis did what the call said. The lease must be renewed after `renew_in`.
  void answered(time_point now, duration renew_in) noexcept;
  /// Call it when the call has failed. True if this begins an outage.
  bool failed(time_point now, std::error_code cause, std::string text, bool is_permanent,
              const limit_settings& s) noexcept;
  /// Call it when the client knows, before the call has ended, why there is no answer. True if this begins an outage.
  bool fails(std::error_code cause, std::string text, bool is_permanent) noexcept;
  /// The call takes longer than the time for which requests that can't wait are kept.
  bool turns_late(time_point now) noexcept;
  /// Decides without Redis until the late call has ended.
  void do_without_until_answer(const limit_settings& s) noexcept;
  /// Call it when a rate or a burst was changed here: this process's share changes at once.
  void rates_changed(time_point now, const limit_settings& s) noexcept;
  /// Call it when the client is closed: there will be no call again.
  void stop() noexcept;

  // ---- what is to be done ----

  /// When to call; max() if not at all, for the time being.
  time_point next_call(const needs& n, time_point now) const noexcept;
  /// When to look again, apart from calls.
  time_point next_look(const needs& n, time_point now) const noexcept;
  /// How long the next call may take to be sent, and then to be answered.
  duration time_limit(const needs& n, duration answer_within) const noexcept;

  bool is_under_way() const noexcept { return is_under_way_; }
  time_point called_at() const noexcept { return called_at_; }
  bool is_before_retry(time_point now) const noexcept { return now < retry_at_; }

  // ---- without Redis ----

  bool is_failing() const noexcept { return is_failing_; }
  std::error_code cause() const noexcept { return cause_; }
  const std::string& cause_text() const noexcept { return cause_text_; }
  /// Whether the failure mode refuses requests while Redis does not answer.
  /// Every mode does if processes with other options or of another version keep the limit.
  bool is_closed() const noexcept;
  /// Whether the call under way takes too long for requests that can't wait.
  bool is_late(time_point now) const noexcept { return is_under_way_ && now >= late_at_; }
  /// Whether Redis does not answer, as far as is known; `has_trouble`: the client has no connection.
  bool is_away(time_point now, bool has_trouble) const noexcept;
  /// Whether this process serves the waiters by itself. After a while without requests this is false, so that the next
  /// request asks Redis first, which may have come back.
  bool may_do_without(time_point now) const noexcept;
  /// Decides a request that does not wait for Redis: granted without an error, would_block for "not now", or the error.
  /// A request for more than this process's share of a burst gets errc::store_unavailable.
  std::error_code decide(time_point now, const canigo::detail::demand& wanted, time_point paused_until,
                         const limit_settings& s) noexcept;
  /// The first waiter is served by this process without Redis, but not yet: next_look() says when.
  void look_again_for(time_point now, const canigo::detail::demand& wanted, time_point paused_until) noexcept;
  /// The error that a request gets at once because Redis fails; none if it may wait.
  std::error_code refusal(bool waits) const noexcept;
  /// When a request ends unless it is granted. Only the waiters that have waited for `give_up` give up. If the failure
  /// mode lets requests through, this is a little before the deadline, for a last look.
  time_point end_of(const limit_request& r) const noexcept;

 private:
  bool is_due(const needs& n) const noexcept;
  bool has_news(const needs& n) const noexcept;
  void begin_share(time_point since, const limit_settings& s) noexcept;
  std::pair<canigo::rate, std::uint64_t> share_of(const rate_setting& r) const noexcept;

  const options options_;

  // The call.
  bool is_under_way_ = false;
  bool is_decided_ = false;  // the requests that can't wait for the call were decided
  bool is_hinted_ = false;
  bool is_wanted_ = false;  // while Redis fails: requests came since the last call
  time_point called_at_ = time_point::min();
  time_point late_at_ = time_point::max();
  time_point renew_at_ = time_point::max();
  time_point next_at_ = time_point::max();   // when a call becomes useful
  time_point retry_at_ = time_point::min();  // no call is made before

  // The outage.
  bool is_failing_ = false;
  bool is_permanent_ = false;  // trying again is of no use
  std::error_code cause_;
  std::string cause_text_;
  time_point failing_since_ = time_point::max();
  time_point known_until_ = time_point::min();  // until then the failure counts as known
  std::uint32_t failures_ = 0;
  std::uint64_t random_;

  // This process's share of the rates. It counts from the beginning of the outage.
  struct rate_share {
    token_bucket bucket;
    std::size_t unit;
  };
  bool has_share_ = false;
  std::vector<rate_share> shares_;           // with room for all of them
  time_point share_at_ = time_point::max();  // then it may serve the first waiter
};

}  // namespace canigo::redis::detail
