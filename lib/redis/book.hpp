#pragma once

#include "canigo/redis/detail/limit_request.hpp"
#include "canigo/time.hpp"

#include "holding.hpp"
#include "sync.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// The state of one process at one limit: its waiting requests, its held permits, and its idle permits or tokens.
///
/// It also collects the changes that Redis must learn: new requests, requests that no longer wait, grants that have
/// arrived here, and permits or tokens that were given back. A call of the Redis script sends these changes. Redis
/// forgets a request only if a call says so. So each change is kept until Redis has answered a call that contained the
/// change.
///
/// Idle permits were released in this process, and are kept here for the time `horizon`. Idle tokens were taken in
/// advance.
class book {
 public:
  /// `horizon`: how long permits or tokens may be idle in this process; 0: they are given back immediately.
  book(bool has_permits, duration horizon) noexcept : has_permits_{has_permits}, horizon_{horizon} {}

  /// Sets the id, the arrival number and the arrival time of a request, even of a request that will not wait.
  void number(limit_request& r, time_point now) noexcept;
  /// Adds a request. Returns false if there is no memory. If it returns true, the request's removal can't fail.
  bool add(limit_request& r) noexcept;
  /// Removes a request. If Redis may have the request in its queue, the next call of the script reports the removal.
  void take_out(limit_request& r) noexcept;
  void clear() noexcept;

  bool has_waiters() const noexcept { return !waiting_.empty(); }
  std::size_t waiters() const noexcept { return waiting_.size(); }
  /// The request that arrived first in the most important class. Precondition: a request waits.
  limit_request& first() const noexcept { return *waiting_.begin()->second; }
  /// oldest() returns the request that arrived first. least_important() returns the request that arrived last in the
  /// least important class. Precondition: a request waits.
  limit_request& oldest() const noexcept;
  limit_request& least_important() const noexcept { return *waiting_.rbegin()->second; }
  /// Returns the request with the number `id`, or nullptr.
  limit_request* find(std::uint64_t id) const noexcept;
  /// Returns the request with the least number in [`first`, `end`), or nullptr.
  limit_request* find_from(std::uint64_t first, std::uint64_t end) const noexcept;
  /// Calls `f` with each request, the most important first. `f` may remove that request.
  template <class F>
  void for_each(F f) const {
    for (auto p = waiting_.begin(); p != waiting_.end();) f(*(p++)->second);
  }

  /// Adds a held permit of this weight, and returns it. Throws std::bad_alloc.
  std::shared_ptr<holding> hold(std::shared_ptr<ledger> home, std::uint64_t id, std::uint64_t weight,
                                std::uint64_t token, std::size_t alternative = 0);
  /// Marks a held permit as released. Returns false if the permit was not held.
  bool release(holding& h) noexcept;
  /// Removes a permit that hold() has added, but that was then not granted. No caller has seen that permit.
  void forget(holding& h) noexcept;
  /// Call it when the lease of this process has ended. Marks all held permits as lost, and drops all idle permits.
  /// Returns the number of lost permits.
  std::size_t lose_all() noexcept;
  /// Returns, as a linked list, the permits that were released or lost since the last call of take_ended().
  std::shared_ptr<holding> take_ended() noexcept { return std::move(ended_); }
  /// Puts back a permit that take_ended() has returned, so that the next call of take_ended() returns it again.
  void tell_again(std::shared_ptr<holding> h) noexcept;
  /// The sum of the weights of this process's permits in use; 0 if the limit has no cap. If the lease of this process
  /// ends, these permits are lost.
  std::uint64_t held() const noexcept { return held_; }
  /// The number of permits that callers have.
  std::size_t out() const noexcept { return holdings_.size(); }
  /// The number of this process's permits in use that belong to this alternative; 0 if the limit has no cap. If the
  /// lease of this process ends, these permits are lost.
  std::uint64_t held_at(std::size_t alternative) const noexcept { return held_at_[alternative]; }

  /// Adds `n` idle permits, or `n` idle tokens of the rate `r`. If no token was idle before this call, all tokens that
  /// earlier calls took in advance were used within the time `horizon`. Then the next call of the script takes up to
  /// twice as many tokens in advance.
  void put_idle(std::uint64_t n, time_point now, const rate_setting& r) noexcept;
  /// Makes the next call of the script give all idle permits or tokens back to Redis. Returns the number of idle
  /// tokens; the caller must refund them to the limit's rate. Returns 0 for permits, which need no refund.
  std::uint64_t give_back_idle() noexcept;
  /// If permits or tokens were idle for the time `horizon`, calls give_back_idle() and returns its result. Otherwise
  /// returns 0.
  std::uint64_t give_back_expired(time_point now) noexcept;
  /// Whether a new request can take `n` idle permits or tokens now: enough are idle, they have been idle for less than
  /// `horizon`, and no request waits.
  bool is_idle_enough(std::uint64_t n, time_point now) const noexcept;
  void take_idle(std::uint64_t n) noexcept { idle_ -= n; }
  std::uint64_t idle() const noexcept { return idle_; }
  time_point idle_until() const noexcept { return idle_until_; }

  /// Whether the process uses the limit: it has waiters, held permits, or idle permits or tokens.
  bool is_engaged() const noexcept { return held_ > 0 || has_waiters() || idle_until_ != time_point::max(); }

  /// has_fresh() returns whether requests wait that Redis does not know yet. has_asked() returns whether requests wait
  /// that Redis knows.
  bool has_fresh() const noexcept { return !fresh_.empty(); }
  bool has_asked() const noexcept { return !asked_.empty(); }
  /// Whether Redis must learn that permits or tokens were given back, or that requests were removed.
  bool has_returns() const noexcept { return must_tell_ || !cancels_.empty(); }
  std::size_t cancels() const noexcept { return cancels_.size(); }
  /// Whether Redis may count permits or tokens as held by this process.
  bool may_hold_there() const noexcept { return may_hold_there_; }
  /// Sets whether Redis must still learn that permits or tokens were given back.
  void must_tell(bool b = true) noexcept { must_tell_ = b; }

  /// Writes the state and the changes into `s`, the next call of the script. `s.alternatives` must already have its
  /// elements. `keeps`: whether permits or tokens may be idle in this process. Throws std::bad_alloc.
  void write(sync_call& s, bool keeps) const;
  /// Call it when a call of the script begins, after write() has filled that call. The requests in the call then count
  /// as known to Redis.
  void call_begins() noexcept;
  /// Call it for every answer of the script, whatever status the answer has.
  void was_heard() noexcept { heard_before_ = asked_before_; }
  /// True only if Redis has answered a call of the script that contained this request.
  bool has_heard_of(const limit_request& r) const noexcept { return r.arrival < heard_before_; }
  /// Call it when an answer says that Redis has executed the call of the script. The acknowledgements and cancellations
  /// in that call are then not sent again.
  void was_told() noexcept;
  /// Sets the result of may_hold_there(). `by_all`: the number of permits that all processes hold, from the latest
  /// answer of Redis. Call it after was_told() and give_back_idle().
  void held_there(std::uint64_t by_all) noexcept;
  /// Makes the next calls of the script send all waiting requests to Redis again. A request that Redis still knows
  /// keeps its position in the queue.
  void ask_again() noexcept { fresh_.merge(asked_); }
  /// Call it when this process begins a new session, which Redis does not know yet. The waiting requests get new ids,
  /// so that a late message to the old session grants none of them.
  void begin_session() noexcept;

  /// Makes the next call of the script tell Redis that the grant of this request has arrived. This function can't fail,
  /// because add() has reserved the memory.
  void acknowledge(std::uint64_t id) noexcept { acknowledged_.push_back(id); }
  /// Call it if Redis reports grants for the ids from `from` to `to` - 1, but no waiting request has these ids. This
  /// means that Redis has lost an earlier acknowledgement, for example because a lagging replica became the master.
  /// Acknowledges each of these grants again; otherwise the grants would never be given back. Skips a grant that the
  /// next or the running call of the script acknowledges or cancels. Throws std::bad_alloc.
  void take_note(std::uint64_t from, std::uint64_t to);
  /// Whether the next call of the script, or the running call, acknowledges or cancels the request with this id.
  bool is_told_of(std::uint64_t id) const noexcept;
  /// The id that the next request or permit gets. All earlier ids are smaller.
  std::uint64_t next_id() const noexcept { return next_id_; }
  std::uint64_t new_id() noexcept { return next_id_++; }

 private:
  using order = std::pair<int, std::uint64_t>;  // the order of requests: first by class, then by arrival
  void let_go(const holding& h) noexcept;
  static order place_of(const limit_request& r) noexcept { return {r.wanted.priority, r.arrival}; }
  std::size_t per_call() const noexcept;

  const bool has_permits_;
  const duration horizon_;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_arrival_ = 1;

  std::map<order, limit_request*> waiting_;
  std::map<std::uint64_t, limit_request*> by_id_;
  std::set<order> fresh_;  // the waiting requests that Redis does not know
  std::set<order> asked_;  // the waiting requests that Redis knows

  std::map<std::uint64_t, std::weak_ptr<holding>> holdings_;
  std::shared_ptr<holding> ended_;
  std::uint64_t held_ = 0;
  std::array<std::uint64_t, most_alternatives> held_at_{};

  std::uint64_t idle_ = 0;
  std::uint64_t ahead_ = 1;  // the number of tokens that the next call of the script takes in advance
  time_point idle_until_ = time_point::max();

  std::vector<sync_call::withdrawal> cancels_;
  std::vector<std::uint64_t> acknowledged_;
  std::size_t cancels_under_way_ = 0;
  std::size_t acknowledged_under_way_ = 0;
  // All requests whose arrival number is less than this one were sent to Redis, in earlier calls of the script or in
  // the running call.
  std::uint64_t asked_before_ = 0;
  // The script has received, and answered, all requests whose arrival number is less than this one.
  std::uint64_t heard_before_ = 0;
  bool must_tell_ = false;
  bool may_hold_there_ = false;
};

}  // namespace canigo::redis::detail
