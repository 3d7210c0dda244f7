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
/// It also collects the changes that Redis must learn: new requests, requests that have left, grants that have arrived,
/// and permits or tokens that were given back. Redis forgets a request only after a call has told it to. So each change
/// is kept until a call that contained it was answered.
///
/// Idle permits were released in this process and are kept for the horizon. Idle tokens were taken in advance.
class book {
 public:
  /// `horizon`: how long permits or tokens may be idle in this process; 0: they are given back immediately.
  book(bool has_permits, duration horizon) noexcept : has_permits_{has_permits}, horizon_{horizon} {}

  /// Assigns a request its numbers. A request that will not wait gets them, too.
  void number(limit_request& r, time_point now) noexcept;
  /// Adds a request. Returns false if there is no memory. If it returns true, the request's removal can't fail.
  bool add(limit_request& r) noexcept;
  /// Removes a request. If Redis may have the request in its queue, the next call reports the removal.
  void take_out(limit_request& r) noexcept;
  void clear() noexcept;

  bool has_waiters() const noexcept { return !waiting_.empty(); }
  std::size_t waiters() const noexcept { return waiting_.size(); }
  /// The most important request. Precondition: there is a request.
  limit_request& first() const noexcept { return *waiting_.begin()->second; }
  /// oldest() returns the earliest request of all. least_important() returns the latest request of the least important
  /// class. Precondition: there is a request.
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
  /// Notes that the permit is no longer held. Returns false if it was not held.
  bool release(holding& h) noexcept;
  /// Call it for a permit that was not granted after all. No caller has seen that permit.
  void forget(holding& h) noexcept;
  /// Call it when the lease has ended: then no permit is held or idle. Returns the number of lost permits.
  std::size_t lose_all() noexcept;
  /// Removes and returns the holdings that have ended since the last call, as a linked list.
  std::shared_ptr<holding> take_ended() noexcept { return std::move(ended_); }
  /// Puts back a holding that take_ended() has returned, so that the next call returns it again.
  void tell_again(std::shared_ptr<holding> h) noexcept;
  /// The number of permits that depend on the lease; 0 without a cap.
  std::uint64_t held() const noexcept { return held_; }
  /// The number of permits that callers have.
  std::size_t out() const noexcept { return holdings_.size(); }
  /// The number of permits of one alternative that depend on the lease.
  std::uint64_t held_at(std::size_t alternative) const noexcept { return held_at_[alternative]; }

  /// Adds idle permits, or idle tokens of this rate. If they are used in time, the next call takes more tokens in
  /// advance.
  void put_idle(std::uint64_t n, time_point now, const rate_setting& r) noexcept;
  /// Makes the next call give all idle permits or tokens back to Redis. Returns the number of tokens that the caller
  /// must refund; permits need no further step.
  std::uint64_t give_back_idle() noexcept;
  /// Calls give_back_idle() if the horizon has passed, and returns its result; otherwise 0.
  std::uint64_t give_back_expired(time_point now) noexcept;
  /// Whether there are `n` idle permits or tokens for a request.
  bool is_idle_enough(std::uint64_t n, time_point now) const noexcept;
  void take_idle(std::uint64_t n) noexcept { idle_ -= n; }
  std::uint64_t idle() const noexcept { return idle_; }
  time_point idle_until() const noexcept { return idle_until_; }

  /// Whether the process uses the limit: it has waiters, held permits, or idle permits or tokens.
  bool is_engaged() const noexcept { return held_ > 0 || has_waiters() || idle_until_ != time_point::max(); }

  /// has_fresh() returns whether there are requests that Redis does not know. has_asked() returns whether there are
  /// requests that Redis knows.
  bool has_fresh() const noexcept { return !fresh_.empty(); }
  bool has_asked() const noexcept { return !asked_.empty(); }
  /// Whether Redis must learn that something was given back, or that requests have left.
  bool has_returns() const noexcept { return must_tell_ || !cancels_.empty(); }
  std::size_t cancels() const noexcept { return cancels_.size(); }
  /// Whether Redis may count permits or tokens as held by this process.
  bool may_hold_there() const noexcept { return may_hold_there_; }
  /// Sets whether Redis must still learn that something was given back.
  void must_tell(bool b = true) noexcept { must_tell_ = b; }

  /// Writes the state and the changes into a call, which has its alternatives already. `keeps`: whether permits or
  /// tokens may be idle in this process. Throws std::bad_alloc.
  void write(sync_call& s, bool keeps) const;
  /// Call it when the call that write() has filled was begun.
  void call_begins() noexcept;
  /// Call it when a call was answered, whatever the answer says.
  void was_heard() noexcept { heard_before_ = asked_before_; }
  /// Whether an answered call has told Redis of this request.
  bool has_heard_of(const limit_request& r) const noexcept { return r.arrival < heard_before_; }
  /// Call it when Redis has carried out the call.
  void was_told() noexcept;
  /// Notes whether Redis may count permits or tokens as held by this process. Call it after was_told() and
  /// give_back_idle().
  void held_there(std::uint64_t by_all) noexcept;
  /// Makes the next calls tell Redis of all requests again. A request that Redis still knows keeps its place in the
  /// queue.
  void ask_again() noexcept { fresh_.merge(asked_); }
  /// Call it when another session begins, which Redis does not know. The requests get other numbers, so that a late
  /// message to the old session grants none of them.
  void begin_session() noexcept;

  /// Notes that the grant of this request has arrived. It can't fail, because add() has reserved memory.
  void acknowledge(std::uint64_t id) noexcept { acknowledged_.push_back(id); }
  /// Acknowledges the grants with these numbers again if no request has the number and no call mentions it. Redis has
  /// then forgotten an earlier acknowledgement, for example because a lagging replica became the master. If they were
  /// not acknowledged again, the grants would never be given back. Throws std::bad_alloc.
  void take_note(std::uint64_t from, std::uint64_t to);
  /// Whether the next call, or the running one, acknowledges or cancels this request.
  bool is_told_of(std::uint64_t id) const noexcept;
  /// The smallest number that new_id() has not returned yet.
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
  std::uint64_t ahead_ = 1;  // the number of tokens that the next call takes in advance
  time_point idle_until_ = time_point::max();

  std::vector<sync_call::withdrawal> cancels_;
  std::vector<std::uint64_t> acknowledged_;
  std::size_t cancels_under_way_ = 0;
  std::size_t acknowledged_under_way_ = 0;
  // The calls so far, including the running one, contain all requests with smaller arrivals.
  std::uint64_t asked_before_ = 0;
  std::uint64_t heard_before_ = 0;  // the answered calls contain all requests with smaller arrivals
  bool must_tell_ = false;
  bool may_hold_there_ = false;
};

}  // namespace canigo::redis::detail
