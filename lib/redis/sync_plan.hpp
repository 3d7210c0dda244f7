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
    /// An alternative. In limit_settings::rates, the alternative's rates have the indexes `first` to `end` - 1.
    struct alternative {
      std::size_t first = 0;
      std::size_t end = 0;
      int prefer = 1;
    };
    std::vector<alternative> alternatives = {};
  };

  /// The state of a limit, from which the plan computes when this process must call Redis.
  struct needs {
    bool is_registered = false;  // whether Redis knows the session of this process
    bool has_waiters = false;
    bool has_fresh = false;       // whether there are waiters that Redis does not know
    bool is_engaged = false;      // whether this process has waiters, held permits, or idle permits or tokens
    bool has_returns = false;     // whether Redis must still learn of returned permits or tokens, or cancelled requests
    bool has_changes = false;     // whether Redis must still learn of changed settings or charged tokens
    bool may_hold_there = false;  // whether Redis may count permits or tokens as held by this process
    bool is_leaving = false;      // whether the limit was stopped, and no caller has a permit
  };

  sync_plan(const options& o, std::uint64_t random);

  /// Call it when Redis may have a grant for this limit.
  void hint() noexcept { is_hinted_ = true; }
  /// Notes that a call to Redis at `t` may bring grants.
  void is_useful_at(time_point t) noexcept;
  /// Call it when a caller requests a grant.
  void request_came() noexcept;
  /// Call it when a call to Redis begins. `answer_within`: the time within which Redis usually answers; 0: unknown.
  void call_begins(time_point now, duration answer_within) noexcept;
  /// Call it when a call to Redis could not be made. The next call is not made before `t`.
  void call_again_at(time_point t) noexcept { retry_at_ = t; }
  /// Call it when a call to Redis has ended. Then report its result with another function, such as recovered() or
  /// failed().
  void call_ended() noexcept { is_under_way_ = false; }
  /// Call it when Redis did not run the script, or asks this process to register again. The next call to Redis is made
  /// without a delay.
  void call_again() noexcept { is_wanted_ = is_failing_; }
  /// Call it when Redis has carried out a call. This ends an outage.
  void recovered() noexcept;
  /// Call it when a call to Redis has succeeded. The next call, which renews the lease, is due `renew_in` after `now`.
  void answered(time_point now, duration renew_in) noexcept;
  /// Call it when a call to Redis has failed. Returns true if the failure begins an outage.
  bool failed(time_point now, std::error_code cause, std::string text, bool is_permanent,
              const limit_settings& s) noexcept;
  /// Call this function when the client knows why Redis does not answer, even if the call of the script has not ended.
  /// Returns true if this failure begins an outage.
  bool fails(std::error_code cause, std::string text, bool is_permanent) noexcept;
  /// Returns true once for each call to Redis that is late. After it has returned true, the caller must decide the
  /// requests that can't wait, without Redis.
  bool turns_late(time_point now) noexcept;
  /// Call it when a call to Redis is late. From now on, requests are decided without Redis until that call has ended.
  void do_without_until_answer(const limit_settings& s) noexcept;
  /// Call it when this process has changed a rate or a burst. This process's share of that rate changes immediately.
  void rates_changed(time_point now, const limit_settings& s) noexcept;
  /// Call it when the client is closed. No more calls to Redis are made.
  void stop() noexcept;

  /// When to call Redis; max() if no call is needed yet.
  time_point next_call(const needs& n, time_point now) const noexcept;
  /// When the waiters must be examined again, even if Redis has not answered; max() if no time is known.
  time_point next_look(const needs& n, time_point now) const noexcept;
  /// The time limit of the next call to Redis, from the request to the answer.
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
  /// Whether the running call to Redis already takes too long for requests that can't wait.
  bool is_late(time_point now) const noexcept { return is_under_way_ && now >= late_at_; }
  /// Whether it is known that Redis does not answer. `has_trouble`: the client has no connection.
  bool is_away(time_point now, bool has_trouble) const noexcept;
  /// Whether this process serves its waiters without Redis during an outage. After a while without requests it returns
  /// false, because Redis may work again. The next request then asks Redis first.
  bool may_do_without(time_point now) const noexcept;
  /// Decides a request without Redis. Returns no error for a grant, would_block if the request must wait, or the error
  /// of a refusal. A request for more than this process's share of a burst gets errc::store_unavailable.
  ///
  /// For a limit with alternatives, `set` contains the alternatives that may serve the request. After a grant, `from`
  /// is the alternative that serves the request.
  std::error_code decide(time_point now, const canigo::detail::demand& wanted, time_point paused_until,
                         const limit_settings& s, std::uint64_t set = 0, std::size_t* from = nullptr) noexcept;
  /// Call it when the first waiter must wait for tokens of this process's share of the rates. Afterwards next_look()
  /// returns when to decide that waiter again.
  void look_again_for(time_point now, const canigo::detail::demand& wanted, time_point paused_until) noexcept;
  /// Like look_again_for(), for a limit with alternatives, whose waiters may wait for different alternatives. Call
  /// look_again_for_none() first, and then look_again_for_any() for each waiter that must wait. `set`: the alternatives
  /// that may serve the waiter and are not paused. `resumes_at`: the earliest time at which the pause of an alternative
  /// ends.
  void look_again_for_none() noexcept { share_at_ = time_point::max(); }
  void look_again_for_any(time_point now, const canigo::detail::demand& wanted, std::uint64_t set,
                          time_point resumes_at) noexcept;
  /// Whether this process's share has enough tokens for a request. Only the rates that apply to every alternative are
  /// checked.
  bool has_common_share(time_point now, const canigo::detail::demand& wanted) noexcept;
  /// The error with which a request is refused immediately because Redis fails; no error if the request may wait.
  std::error_code refusal(bool waits) const noexcept;
  /// Returns when a waiting request must be decided or ended.
  ///
  /// In mode closed, this is the request's deadline. During an outage it may be earlier: `give_up` after the beginning
  /// of the outage or after the arrival of the request, whichever is later.
  ///
  /// In the other modes, the first result is a little before the deadline, so that the request can still be decided
  /// without Redis. If the request must wait after that, the next result is its deadline.
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

  // The following members describe the calls to Redis.
  bool is_under_way_ = false;
  bool is_decided_ = false;  // whether every request that can't wait for the running call has its decision
  bool is_hinted_ = false;
  bool is_wanted_ = false;  // in an outage: whether a request has come since the last call to Redis began
  time_point called_at_ = time_point::min();
  time_point late_at_ = time_point::max();
  time_point renew_at_ = time_point::max();
  time_point next_at_ = time_point::max();   // when the next call to Redis may bring grants
  time_point retry_at_ = time_point::min();  // no call to Redis is made before this time

  // The following members describe an outage.
  bool is_failing_ = false;
  bool is_permanent_ = false;  // whether further calls to Redis would fail with the same error
  std::error_code cause_;
  std::string cause_text_;
  time_point failing_since_ = time_point::max();
  // in an outage: until this time, requests are decided without asking Redis first
  time_point known_until_ = time_point::min();
  std::uint32_t failures_ = 0;
  std::uint64_t random_;
  std::size_t turn_ = 0;  // in mode open: the index at which the search for the next request's alternative begins

  // Whether begin_share() has given this process its share of the rates. The share is empty at first, and then fills.
  bool has_share_ = false;
  std::vector<rate_share> shares_;  // this process's share of each rate; the constructor has reserved the memory
  time_point share_at_ = time_point::max();  // when this process's share may have enough tokens for the first waiter
};

}  // namespace canigo::redis::detail
