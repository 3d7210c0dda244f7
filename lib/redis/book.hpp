#pragma once

#include "canigo/redis/detail/limit_request.hpp"
#include "canigo/time.hpp"

#include "holding.hpp"
#include "sync.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

namespace canigo::redis::detail {

/// The state of one process at one limit: the requests that wait, the permits that are held, and idle permits or
/// tokens.
///
/// It also knows the news for Redis: which requests are new, which have left, which grants have arrived, and whether
/// permits or tokens were given back. Redis forgets a request only after a call has said so. The book keeps each piece
/// of news until a call with it was answered.
///
/// Idle permits were released here and are kept for the horizon. Idle tokens were taken ahead.
class book {
 public:
  /// `horizon`: how long permits or tokens may lie idle here; 0: they never do.
  book(bool has_permits, duration horizon) noexcept : has_permits_{has_permits}, horizon_{horizon} {}

  // ---- requests that wait ----

  /// Gives a request its numbers, also if it will not wait.
  void number(limit_request& r, time_point now) noexcept;
  /// Adds a request. False if there is no memory. After true, removing the request can't fail.
  bool add(limit_request& r) noexcept;
  /// Takes a request out. Redis is told, if it may know the request.
  void take_out(limit_request& r) noexcept;
  /// Forgets all requests.
  void clear() noexcept;

  bool has_waiters() const noexcept { return !waiting_.empty(); }
  std::size_t waiters() const noexcept { return waiting_.size(); }
  /// The most important request; there must be one.
  limit_request& first() const noexcept { return *waiting_.begin()->second; }
  /// The request that arrived first of all, and the youngest of the least important class; there must be one.
  limit_request& oldest() const noexcept;
  limit_request& least_important() const noexcept { return *waiting_.rbegin()->second; }
  /// The request with that number, or nullptr.
  limit_request* find(std::uint64_t id) const noexcept;
  /// The request with the least number from `first` on and below `end`, or nullptr.
  limit_request* find_from(std::uint64_t first, std::uint64_t end) const noexcept;
  /// Calls `f` with each request, the most important first. `f` may take that request out.
  template <class F>
  void for_each(F f) const {
    for (auto p = waiting_.begin(); p != waiting_.end();) f(*(p++)->second);
  }

  // ---- permits, and what lies idle ----

  /// Notes that a permit of this weight is held from now on. Throws std::bad_alloc.
  std::shared_ptr<holding> hold(std::shared_ptr<ledger> home, std::uint64_t id, std::uint64_t weight,
                                std::uint64_t token);
  /// Notes that the permit is no longer held. False if it was not held.
  bool release(holding& h) noexcept;
  /// Call it when the permit was not granted after all. No caller has seen it yet.
  void forget(holding& h) noexcept;
  /// Call it when the lease has ended: then no permit is held or idle. Returns how many permits are lost.
  std::size_t lose_all() noexcept;
  /// Takes the holdings that have ended since the last call: the first of a chain.
  std::shared_ptr<holding> take_ended() noexcept { return std::move(ended_); }
  /// Puts back one of the holdings that take_ended() returned.
  void tell_again(std::shared_ptr<holding> h) noexcept;
  /// The permits that a lease keeps. Without a cap there are none.
  std::uint64_t held() const noexcept { return held_; }
  /// The number of permits that are out.
  std::size_t out() const noexcept { return holdings_.size(); }

  /// Adds idle permits, or tokens of this rate. The next call takes more tokens ahead if these are used in time.
  void put_idle(std::uint64_t n, time_point now, const rate_setting& r) noexcept;
  /// Gives all idle permits or tokens back to Redis. Returns the number of tokens for the caller to give back; permits
  /// need no further step.
  std::uint64_t give_back_idle() noexcept;
  /// Like give_back_idle(), at the end of the horizon.
  std::uint64_t give_back_expired(time_point now) noexcept;
  /// Whether there are `n` idle permits or tokens for a request.
  bool is_idle_enough(std::uint64_t n, time_point now) const noexcept;
  void take_idle(std::uint64_t n) noexcept { idle_ -= n; }
  std::uint64_t idle() const noexcept { return idle_; }
  time_point idle_until() const noexcept { return idle_until_; }

  /// Whether the process needs the limit.
  bool is_engaged() const noexcept { return held_ > 0 || has_waiters() || idle_until_ != time_point::max(); }

  // ---- what Redis is told ----

  /// Whether there are requests that Redis does not know, and whether there are requests that it knows.
  bool has_fresh() const noexcept { return !fresh_.empty(); }
  bool has_asked() const noexcept { return !asked_.empty(); }
  /// Whether something was given back, or requests have left.
  bool has_returns() const noexcept { return must_tell_ || !cancels_.empty(); }
  std::size_t cancels() const noexcept { return cancels_.size(); }
  /// Whether Redis may count something as held here.
  bool may_hold_there() const noexcept { return may_hold_there_; }
  /// Notes whether Redis must still be told that something was given back.
  void must_tell(bool b = true) noexcept { must_tell_ = b; }

  /// Writes the state and the news into a call. `keeps`: whether permits or tokens may lie idle here.
  /// Throws std::bad_alloc.
  void write(sync_call& s, bool keeps) const;
  /// Call it when the call that was written is under way.
  void call_begins() noexcept;
  /// Call it when a call was answered, whatever the answer.
  void was_heard() noexcept { heard_before_ = asked_before_; }
  /// Whether Redis has been told of this request and has answered.
  bool has_heard_of(const limit_request& r) const noexcept { return r.arrival < heard_before_; }
  /// Call it when Redis has carried out the call.
  void was_told() noexcept;
  /// Call it after was_told() and give_back_idle(). It notes whether Redis may count something as held here.
  void held_there(std::uint64_t by_all) noexcept;
  /// The next call tells Redis of all requests again. A request that Redis still knows keeps its place.
  void ask_again() noexcept { fresh_.merge(asked_); }
  /// Call it when another session begins, of which Redis knows nothing. The requests get other numbers, so that a late
  /// message to the old session grants none of them.
  void begin_session() noexcept;

  /// Notes that the grant of this request has arrived. Can't fail, because add() has made room.
  void acknowledge(std::uint64_t id) noexcept { acknowledged_.push_back(id); }
  /// Redis has granted these numbers, and none of them waits here. If no call is telling Redis about them, Redis has
  /// forgotten earlier news, as a replica that lagged and has taken over. So they are acknowledged again. Otherwise
  /// these grants would never be given back. Throws std::bad_alloc.
  void take_note(std::uint64_t from, std::uint64_t to);
  /// Whether the next call, or one under way, says what has become of this request.
  bool is_told_of(std::uint64_t id) const noexcept;
  /// The least number that is not in use yet; new_id() uses it.
  std::uint64_t next_id() const noexcept { return next_id_; }
  std::uint64_t new_id() noexcept { return next_id_++; }

 private:
  using order = std::pair<int, std::uint64_t>;  // class, arrival
  static order place_of(const limit_request& r) noexcept { return {r.wanted.priority, r.arrival}; }
  std::size_t per_call() const noexcept;

  const bool has_permits_;
  const duration horizon_;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_arrival_ = 1;

  std::map<order, limit_request*> waiting_;
  std::map<std::uint64_t, limit_request*> by_id_;
  std::set<order> fresh_;  // the requests of waiting_ of which Redis has not heard
  std::set<order> asked_;  // the requests of waiting_ of which Redis has heard

  std::map<std::uint64_t, std::weak_ptr<holding>> holdings_;
  std::shared_ptr<holding> ended_;
  std::uint64_t held_ = 0;

  std::uint64_t idle_ = 0;
  std::uint64_t ahead_ = 1;  // how many tokens the next call takes ahead
  time_point idle_until_ = time_point::max();

  std::vector<sync_call::withdrawal> cancels_;
  std::vector<std::uint64_t> acknowledged_;
  std::size_t cancels_under_way_ = 0;
  std::size_t acknowledged_under_way_ = 0;
  std::uint64_t asked_before_ = 0;  // Redis is told of smaller arrivals, by the call under way or earlier
  std::uint64_t heard_before_ = 0;  // Redis has been told of smaller arrivals, by an answered call
  bool must_tell_ = false;
  bool may_hold_there_ = false;
};

}  // namespace canigo::redis::detail
