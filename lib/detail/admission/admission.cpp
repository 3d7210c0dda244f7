#include "canigo/detail/admission/admission.hpp"

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_places.hpp"

#include <algorithm>
#include <mutex>
#include <string>
#include <type_traits>

namespace canigo::detail {

namespace {

constexpr std::uint8_t grants_in_a_row = 128;

}  // namespace

void admission::check(const request& r) const {
  if (r.priority < 0 || r.priority >= priorities_) {
    throw_invalid("request.priority", r.priority, "0 to " + std::to_string(priorities_ - 1), errc::invalid_priority);
  }
  if (r.tokens == 0) throw_invalid("request.tokens", r.tokens, "1 or more");
  const std::lock_guard lock{mutex_};
  if (!is_of_this(r)) throw_invalid("request.flow", "of another limit", "a flow of this one, or none");
  if (const auto most = largest_request(r); r.tokens > most) {
    throw_invalid("request.tokens", r.tokens, "1 to " + std::to_string(most), errc::too_large);
  }
  if (!r.amounts.empty()) check_amounts(r);
  if (supplies_.any_of() != nullptr) check_alternatives(r);
}

/// Returns the current time if the request needs it, otherwise time_point::min(). Reading the clock costs half as much
/// as taking a free permit. A semaphore needs the time only for a request with a deadline.
inline time_point admission::now_for(time_point deadline) const noexcept {
  return supplies_.has_rates() || deadline != time_point::max() ? clock() : time_point::min();
}

bool admission::is_paused(time_point now) noexcept {
  if (now == time_point::min()) now = clock();
  if (now < paused_until_) return true;
  paused_until_ = time_point::min();
  return false;
}

/// Grants a request if it need not wait; otherwise returns the reason why it is not granted. This function takes half
/// of the time of an acquire that need not wait. So it is inline, and handles the usual case first. `closer` handles
/// the unusual cases. So a usual request, which only has a class, need not be stored in memory.
template <class Closer>
[[gnu::always_inline]] inline outcome admission::try_enter_locked(int priority, std::uint64_t tokens, time_point now,
                                                                  bool is_usual, Closer closer) noexcept {
  const bool can_be = static_cast<unsigned>(priority) < static_cast<unsigned>(priorities_) && tokens != 0;
  if (can_be && ways_.in && is_usual) [[likely]] {
    if (queue_.empty() && (paused_until_ == time_point::min() || !is_paused(now)) && supplies_.try_take(now, tokens))
        [[likely]] {
      counts_.add_grant_at_once(priority);
      return outcome::granted;
    }
    if (tokens == 1) return outcome::must_wait;  // a request for one token never exceeds the burst, so it can wait
  }
  return closer();
}

[[gnu::always_inline]] inline outcome admission::try_enter_locked(const request& r, time_point now,
                                                                  bool is_patient) noexcept {
  return try_enter_locked(r.priority, r.tokens, now, r.deadline >= now && r.amounts.empty() && r.flow == nullptr,
                          [&] { return why_not(r, now, is_patient); });
}

outcome admission::why_not(int priority, time_point now, bool is_patient) noexcept {
  return why_not(request{.priority = priority}, now, is_patient);
}

outcome admission::why_not(const request& r, time_point now, bool is_patient) noexcept {
  outcome o = outcome::must_wait;
  if (r.priority < 0 || r.priority >= priorities_) {
    o = to_outcome(errc::invalid_priority);
  } else if (stopped_) {
    o = to_outcome(errc::stopped);
  } else if (r.tokens == 0) {
    o = to_outcome(errc::invalid_argument);
  } else if (!is_of_this(r)) {
    o = to_outcome(errc::invalid_argument);
  } else if (is_shadow()) {
    o = enter_in_shadow(r, now, is_patient);
  } else if (r.tokens > largest_request(r)) {
    o = to_outcome(errc::too_large);
  } else if (const outcome wrong = why_not_amounts(r); wrong != outcome::must_wait) {
    o = wrong;
  } else if (r.deadline < now) {
    o = to_outcome(errc::deadline_unreachable);
  } else if (flows_ != nullptr) {
    o = enter_flow(r, now);
  } else if (units_ != nullptr) {
    o = try_enter_with_units(r, now);
  }
  if (o > outcome::granted) {
    count_end(o);
    count_flow_failure(r);
  }
  return o;
}

outcome admission::try_enter(const request& r) noexcept {
  const time_point now = now_for(r.deadline);
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(r, now, false);
  if (o < outcome::granted) {
    count_end(o);
    if (o == outcome::must_wait_in_flow) count_flow_failure(r);
  }
  return o;
}

outcome admission::try_enter(int priority) noexcept {
  const time_point now = now_for(time_point::max());
  const std::lock_guard lock{mutex_};
  const outcome o = try_enter_locked(priority, 1, now, true, [&] { return why_not(priority, now, false); });
  if (o < outcome::granted) count_end(o);
  return o;
}

[[gnu::always_inline]] inline outcome admission::take_turn(outcome o) noexcept {
  if (o != outcome::granted || ++in_a_row_ <= grants_in_a_row) return o;
  in_a_row_ = 0;
  return outcome::granted_by_post;
}

outcome admission::try_enter_in_turn(const request& r) noexcept {
  const time_point now = now_for(r.deadline);
  const std::lock_guard lock{mutex_};
  return take_turn(try_enter_locked(r, now));
}

outcome admission::try_enter_in_turn(int priority) noexcept {
  const time_point now = now_for(time_point::max());
  const std::lock_guard lock{mutex_};
  return take_turn(try_enter_locked(priority, 1, now, true, [&] { return why_not(priority, now); }));
}

void admission::enter(waiter& w, const request& r) noexcept {
  const time_point now = clock();
  const change c{*this};
  outcome o = try_enter_locked(r, now);
  if (o == outcome::must_wait && r.deadline != time_point::max() && earliest(r, now) > r.deadline) {
    o = to_outcome(errc::deadline_unreachable);
    count_end(o);
  }
  w.tokens = r.tokens;
  w.priority = static_cast<std::uint16_t>(r.priority);
  w.tag_ = r.tag;
  if (units_ != nullptr) o = keep_amounts(w, r, o);
  bool evicted = false;
  if (o == outcome::must_wait && queue_.size() >= queue_limit_) {
    evicted = make_room(fair_queue::nameless, r.priority);
    if (!evicted) {
      o = to_outcome(errc::queue_full);
      count_end(o);
    }
  }
  if (o != outcome::must_wait) {
    if (o == outcome::must_wait_in_flow) return wait_in_flow(w, r, now);
    if (o == outcome::granted && flows_ != nullptr) stamp(w, r);
    w.outcome_ = o;
    if (o > outcome::granted && w.amounts_ != nullptr) drop_amounts(w);
    ready(w);
    return;
  }
  queue_.push(w, now, r.since);
  if (!ways_.through) [[unlikely]] {
    if (w.amounts_ != nullptr) wait_for_amounts(w);
    if (delays_ && queue_.size(w.priority) == 1) delays_->first_comes(w.priority, now);
  }
  has_waiters_.store(true, std::memory_order_relaxed);
  wait_in_queue(w, r);
  // If `w` is the first waiter now, it may be grantable although the former first waiter was not. The former first
  // waiter may request more tokens than `w`, or may be less important.
  if (evicted || (!ways_.through && delays_) || queue_.front(now) == &w) pump(now);
}

/// Completes the start of a wait: sets the timer of the deadline, and keeps the loop running if the waiter requires
/// that. Precondition: the waiter is in the queue.
[[gnu::always_inline]] inline void admission::wait_in_queue(waiter& w, const request& r) noexcept {
  w.state_ = waiter::state::queued;
  if (r.deadline == time_point::max() || !time_->arm(*w.limit_, r.deadline)) w.limit_ = nullptr;
  if (w.holds_work_) hold_loop();
}

void admission::deliver(waiter& w, const request& r, outcome o) noexcept {
  const change c{*this};
  w.tokens = r.tokens;
  if (units_ != nullptr) keep_amounts(w, r, o);
  if (flows_ != nullptr) stamp(w, r);
  w.outcome_ = o;
  ready(w);
}

void admission::cancel(waiter& w) noexcept {
  const change c{*this};
  if (w.state_ != waiter::state::queued) return;
  if (flows_ != nullptr) advance_flows();
  finish(w, outcome::aborted);
  pump(time_->now());
}

bool admission::make_room(std::uint32_t flow, int priority) noexcept {
  wait_node* victim = nullptr;
  if (on_overflow_ == overflow::evict_oldest) victim = flows_ == nullptr ? queue_.oldest() : flows_->oldest();
  if (on_overflow_ == overflow::evict_least_important) {
    victim = flows_ == nullptr ? queue_.displaced_by(priority) : flows_->displaced_by(flow, priority);
  }
  if (victim == nullptr) return false;
  finish(static_cast<waiter&>(*victim), to_outcome(errc::evicted));
  return true;
}

/// Ends the wait of a queued waiter.
void admission::finish(waiter& w, outcome o) noexcept {
  if (w.is_phantom_) [[unlikely]]
    return finish_phantom(w, o);
  if (flows_ != nullptr) [[unlikely]] {
    leave_flow(w, o);
  } else {
    queue_.remove(w);
  }
  conclude(w, o);
}

/// Ends the wait of a waiter. Precondition: the waiter was removed from the queue.
[[gnu::always_inline]] inline void admission::conclude(waiter& w, outcome o) noexcept {
  has_waiters_.store(!queue_.empty(), std::memory_order_relaxed);
  if (w.holds_work_) release_loop();
  w.outcome_ = o;
  if (o != outcome::granted) {
    count_end(o);
    if (w.amounts_ != nullptr) leave_with_amounts(w, o);
  }
  if (w.limit_ != nullptr && !time_->cancel(*w.limit_)) {
    w.state_ = waiter::state::awaiting_limit;
    // keeps the engine alive: the callback of the deadline has begun on another thread, and still uses the engine
    add_ref();
    return;
  }
  ready(w);
}

/// Calls conclude() for callers in other source files.
void admission::end_wait(waiter& w, outcome o) noexcept { conclude(w, o); }

void admission::ready(waiter& w) noexcept {
  w.state_ = waiter::state::ending;
  if (w.at_home_ && pushes()) return make_pushed(w);
  make_ready(w, w.at_home_);
}

void admission::limit_passed(waiter& w) noexcept {
  bool release = false;
  {
    const change c{*this};
    if (w.state_ == waiter::state::queued) {
      // The waiter may still be granted at its deadline, but only after the waiters before it. So pump() runs first.
      const time_point now = time_->now();
      pump(now);
      if (w.state_ == waiter::state::queued) {
        w.limit_ = nullptr;
        finish(w, to_outcome(errc::timed_out));
        pump(now);
      }
    }
    if (w.state_ == waiter::state::awaiting_limit) {
      release = true;
      ready(w);
    }
  }
  if (release) release_ref();
}

template <class Queue>
[[gnu::always_inline]] inline void admission::serve(Queue& queue, time_point now) noexcept {
  constexpr bool has_flows = std::is_same_v<Queue, fair_queue>;
  time_point next = paused_until_;
  if (now >= paused_until_) {
    paused_until_ = time_point::min();
    next = time_point::max();
    // Wake-ups are always a little late. Tokens that became due before this wake-up count as taken at their due time.
    // Without this rule, a full bucket would lose the tokens of the delay at every grant. After a long suspension of
    // the process, at most `catch_up` of the delay counts.
    time_point as_of = std::min(now, std::max(wake_time_, saturating_add(now, -catch_up)));
    [[maybe_unused]] const time_point caught_up = as_of;
    wait_node* n = nullptr;
    while ((n = queue.front(now)) != nullptr) {
      if (!supplies_.try_take(as_of, n->tokens)) {
        const time_point ready = supplies_.ready_at(as_of, n->tokens);
        if (ready > now || !supplies_.try_take(ready, n->tokens)) {
          next = ready;
          // A waiter that ageing promotes above `n` may be granted before `ready`, because its request may be lighter.
          if (n->tokens > 1) next = std::min(next, queue.next_promotion(now));
          break;
        }
        as_of = ready;
      }
      counts_.add_grant(n->priority, now - n->since());
      if constexpr (has_flows) {
        queue.grant(*n, caught_up);
      } else {
        queue.remove(*n);
      }
      conclude(static_cast<waiter&>(*n), outcome::granted);
    }
    if constexpr (has_flows) {
      // Null: the queue is empty, or the ceilings of the flows hold all its waiters back until next_change().
      if (n == nullptr) next = queue.next_change();
    }
  }
  wake_at(queue.empty() ? time_point::max() : next);
}

void admission::pump(time_point now) noexcept {
  if (ways_.through) [[likely]] {
    serve(queue_, now);
  } else if (!context_gone_) {
    pump_otherwise(now);
  }
}

void admission::pump_otherwise(time_point now) noexcept {
  const bool is_full =
      seat_ != nullptr || units_ != nullptr || delays_ || shadow_ != nullptr || supplies_.rates().has_windows();
  if (supplies_.any_of() != nullptr) {
    serve_any_of(now);
  } else if (flows_ != nullptr && !is_full && slack_ == duration::zero()) {
    serve(*flows_, now);
  } else {
    serve_fully(now);
  }
  if (binding_) note_binding(now);
}

/// Ends the waiters whose requests have become too large for the limit, wherever they are in the queue. Such a waiter
/// must not stay in the queue until it is the first one. Ageing may make it the first one while the engine does
/// nothing, and then nothing would end its wait.
void admission::end_too_large() noexcept {
  const std::uint64_t most = units_ != nullptr ? 0 : supplies_.largest_request();
  const auto end = [this](wait_node& n) {
    if (!supplies_.fits(demand_of(n))) finish(static_cast<waiter&>(n), to_outcome(errc::too_large));
  };
  queue_.for_each_heavier_than(most, end);
  if (flows_ != nullptr && (flows_->shrinks_to(most) || units_ != nullptr)) flows_->for_each(end);
  if (supplies_.any_of() != nullptr) find_sets_anew();
}

void admission::wake_at(time_point when) noexcept {
  if (wake_armed_) {
    // If the handler of wake_up_ is running, it calls pump() itself, so this function must not arrange a second call.
    if (when == wake_time_ || !time_->cancel(wake_up_)) return;
    wake_armed_ = false;
  }
  if (when != time_point::max()) wake_armed_ = time_->arm(wake_up_, when);
  wake_time_ = when;
}

admission::wake_up::wake_up(admission& a) noexcept
    : deadline{[](deadline& d, due why) noexcept {
        if (why == due::expired) static_cast<wake_up&>(d).owner->woken();
      }},
      owner{&a} {}

void admission::woken() noexcept {
  mutex_.lock();
  wake_armed_ = false;
  if (dying_) {
    mutex_.unlock();
    unreferenced();
    return;
  }
  pump(time_->now());
  unlock();
}

bool admission::occupy(std::uint64_t places) noexcept {
  const std::lock_guard lock{mutex_};
  return supplies_.try_occupy(places);
}

std::uint64_t admission::occupied() const noexcept {
  const std::lock_guard lock{mutex_};
  return supplies_.occupied();
}

void admission::release(std::uint64_t places, std::uint64_t kept) noexcept {
  mutex_.lock();
  if (!ways_.out) [[unlikely]]
    return release_and_tell(places, kept);
  supplies_.release(places);
  if (queue_.empty()) [[likely]] {
    mutex_.unlock();
    return;
  }
  pump(time_->now());
  unlock();
}

/// Releases slots if the fast path can't do so: frees the slots, and offers them to this limit's waiters and to other
/// engines. Call it with the lock held; it releases the lock.
void admission::release_and_tell(std::uint64_t places, std::uint64_t kept) noexcept {
  const std::uint32_t flow = flow_places::flow(places);
  places = flow_places::places(places);
  if (flows_ != nullptr) {
    advance_flows();
    flows_->release(flow, places);
  }
  supplies_.release(places);
  if (shadow_ != nullptr) supplies_.settle_beyond();
  if (units_ != nullptr) {
    if (supplies_.any_of() != nullptr) supplies_.any_of()->release(to_record(kept)->alternative);
    if (supplies_.named() != nullptr) supplies_.named()->release(to_record(kept)->sublimit);
    units_->records.put_back(to_record(kept));
  }
  const std::shared_ptr<shared_places> sought = put_back(places);
  if (!queue_.empty() || flows_ != nullptr) pump(clock());
  const bool last = gave_up_last_place();
  unlock();
  if (sought != nullptr) sought->pass_on();
  if (last) release_ref();
}

/// If this limit shares its slots with other limits, gives slots back to the shared_places. Returns the shared_places
/// if the caller must call its pass_on() after the lock was released; otherwise null.
std::shared_ptr<shared_places> admission::put_back(std::uint64_t places) noexcept {
  return seat_ != nullptr && supplies_.shared()->put_back(places) ? supplies_.shared() : nullptr;
}

void admission::undo(waiter& w) noexcept {
  std::shared_ptr<shared_places> sought;
  bool last = false;
  {
    const change c{*this};
    const time_point now = clock();
    const time_point granted_at = w.amounts_ != nullptr ? w.amounts_->granted_at : time_point::min();
    if (flows_ != nullptr) {
      advance_flows();
      flows_->undo(w, granted_at);
    }
    supplies_.undo(now, demand_of(w), granted_at);
    if (alternatives* const any = supplies_.any_of()) {
      any->undo(w.amounts_->alternative, now, demand_of(w), granted_at);
    }
    if (supplies_.named() != nullptr) supplies_.named()->undo(w.amounts_->sublimit, now, demand_of(w), granted_at);
    supplies_.settle_beyond();
    if (w.amounts_ != nullptr) drop_amounts(w);
    sought = put_back(supplies_.places_for(w.tokens));
    pump(now);
    last = gave_up_last_place();
  }
  if (sought != nullptr) sought->pass_on();
  if (last) release_ref();
}

void admission::seat::look_again() noexcept {
  const change c{*owner};
  if (!owner->context_gone_) owner->pump(owner->time_->now());
}

bool admission::gave_up_last_place() noexcept {
  if (!kept_by_places_ || supplies_.occupied() > 0) return false;
  kept_by_places_ = false;
  return true;
}

/// Counts a request that did not wait, or whose wait was not successful.
void admission::count_end(outcome o) noexcept {
  if (o == outcome::aborted) {
    counts_.add_cancelled();
  } else {
    counts_.add_failure(static_cast<errc>(o));
  }
}

}  // namespace canigo::detail
