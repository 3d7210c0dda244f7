// The part of the engine that handles flows: how they are added, and how their requests enter and leave.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_places.hpp"
#include "canigo/flow.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace canigo::detail {

namespace {

void check_cap(std::string_view field, std::uint64_t cap, supplies::occupancy o) {
  if (cap < 1) throw_invalid(field, cap, "1 or more");
  if (cap != unlimited && o == supplies::occupancy::none) {
    throw_invalid(field, cap, "unlimited, as a scheduler's grants hold no place");
  }
}

}  // namespace

std::uint32_t admission::open_flow(const flow_options& o) {
  const change c{*this};
  const time_point now = clock();
  check_cap("flow_options.concurrency", o.concurrency, supplies_.occupies());
  flow_terms terms = to_terms(o, &supplies_, now);
  if (flows_ == nullptr) move_to_flows(now);
  flows_->advance(now);
  const std::uint32_t flow = flows_->add(std::move(terms));
  add_ref();
  return flow;
}

void admission::move_to_flows(time_point now) {
  const fair_queue::amounts_of_node amounts = [](const wait_node& n) noexcept -> const amounts_by_unit* {
    return &static_cast<const waiter&>(n).amounts_->amounts;
  };
  auto flows =
      std::make_unique<fair_queue>(priorities_, queue_.ageing(), supplies_.occupies(),
                                   units_ != nullptr ? amounts : nullptr, delays_ ? delays_->rule() : delay_rule{{}});
  flows->take_over(queue_, now, delays_ ? &*delays_ : nullptr);
  flows_ = std::move(flows);
  choose_ways();
  has_waiters_.store(false, std::memory_order_relaxed);
}

void admission::close_flow(std::uint32_t flow) noexcept {
  {
    const change c{*this};
    advance_flows();
    flows_->for_each_of(flow, [this](wait_node& n) { finish(static_cast<waiter&>(n), to_outcome(errc::stopped)); });
    flows_->forget(flow);
    pump(clock());
  }
  release_ref();
}

void admission::set_flow_weight(std::uint32_t flow, std::uint32_t weight) {
  check_flow_weight("flow.set_weight: weight", weight);
  const std::lock_guard lock{mutex_};
  flows_->set_weight(flow, weight);
}

void admission::set_flow_rate(std::uint32_t flow, std::size_t index, const rate& r) {
  const change c{*this};
  const std::size_t rates = flows_->ceiling(flow).rates().size();
  if (index >= rates) throw_invalid("flow.set_rate: index", index, "less than " + std::to_string(rates));
  pump(clock());  // grants the requests that were due at the old rate, before the rate changes
  advance_flows();
  flows_->set_rate(flow, index, r);
  // The new rate may be strict, and its window too small for some waiters. They can never be granted, so they end with
  // too_large.
  const std::size_t units = supplies_.has_units() ? supplies_.units()->size() : 1;
  flows_->for_each_of(flow, [&](wait_node& n) {
    for (std::size_t unit = 0; unit < units; ++unit) {
      if (demand_of(n).of(unit) <= flows_->largest_request(flow, unit)) continue;
      return finish(static_cast<waiter&>(n), to_outcome(errc::too_large));
    }
  });
  pump(clock());
}

void admission::set_flow_concurrency(std::uint32_t flow, std::uint64_t concurrency) {
  check_cap("flow.set_concurrency: concurrency", concurrency, supplies_.occupies());
  const change c{*this};
  pump(clock());
  advance_flows();
  flows_->set_cap(flow, concurrency);
  const std::uint64_t most = flows_->largest_request(flow);
  flows_->for_each_of(flow, [&](wait_node& n) {
    if (n.tokens > most) finish(static_cast<waiter&>(n), to_outcome(errc::too_large));
  });
  pump(clock());
}

void admission::pause_flow(std::uint32_t flow, time_point t, bool may_shorten) noexcept {
  const change c{*this};
  pump(clock());
  advance_flows();
  flows_->pause_until(flow, may_shorten ? t : std::max(t, flows_->ceiling(flow).paused_until()));
  pump(clock());
}

flow_stats admission::stats_of_flow(std::uint32_t flow) const {
  flow_stats s;
  s.available.reserve(most_rates_of_flow);  // this memory is allocated before the lock is taken
  const std::lock_guard lock{mutex_};
  read_flow(*flows_, flow, clock(), s);
  // in shadow mode, callers do not wait: the queue only measures how long their requests would have waited
  if (is_shadow()) {
    s.waiting = 0;
    s.is_held_back = false;
  }
  return s;
}

void admission::settle(std::uint32_t flow, std::uint64_t from, std::uint64_t to) noexcept {
  adjust_supplies([&](supplies& s, time_point now) {
    if (flow != fair_queue::nameless) flows_->advance(now);
    if (flow != fair_queue::nameless) flows_->settle(flow, 0, from, to, time_point::min());
    s.rates().settle(now, 0, from, to);
  });
}

bool admission::is_of_this(const request& r) const noexcept {
  return r.flow == nullptr || r.flow->host_ == static_cast<const flow_host*>(this);
}

std::uint64_t admission::largest_request(const request& r) const noexcept {
  const std::uint64_t of_limit = supplies_.largest_request();
  if (r.flow == nullptr) return of_limit;
  const std::uint64_t of_flow = flows_->largest_request(r.flow->number_);
  const bool holds_tokens = supplies_.occupies() == supplies::occupancy::tokens;
  return std::min({of_limit, of_flow, holds_tokens ? flow_places::most : of_limit});
}

std::uint64_t admission::places_in_flow(const request& r) const noexcept {
  return flow_places::join(places_for(r.tokens), r.flow->number_);
}

std::uint32_t admission::number_of(const request& r) noexcept {
  return r.flow != nullptr ? r.flow->number_ : fair_queue::nameless;
}

void admission::stamp(waiter& w, const request& r) noexcept { flows_->stamp(w, number_of(r)); }

void admission::count_flow_failure(const request& r) noexcept {
  if (flows_ != nullptr && r.flow != nullptr && is_of_this(r)) flows_->count_failure(r.flow->number_);
}

void admission::advance_flows() noexcept { flows_->advance(clock()); }

/// Grants a request immediately if possible. Waiters do not prevent the grant if they all belong to other flows, and
/// the ceilings of those flows hold up all of them.
outcome admission::enter_flow(const request& r, time_point now) noexcept {
  // For a semaphore `now` is time_point::min(), because the caller does not read the clock. But the rates of flows need
  // the time.
  if (now == time_point::min()) now = clock();
  flows_->advance(now);
  const std::uint32_t flow = number_of(r);
  if (supplies_.any_of() != nullptr) return enter_any_of(r, now, flow);
  if (units_ != nullptr) return enter_flow_with_units(r, now, flow);
  if (now < paused_until_ || !flows_->may_enter(flow, r.tokens) || !supplies_.try_take(now, r.tokens)) {
    return outcome::must_wait_in_flow;
  }
  flows_->enter(flow, r.tokens);
  counts_.add_grant_at_once(r.priority);
  return outcome::granted;
}

void admission::wait_in_flow(waiter& w, const request& r, time_point now) noexcept {
  const std::uint32_t flow = number_of(r);
  if (grant_newcomer(w, r, flow, now)) return;
  outcome o = outcome::must_wait;
  bool evicted = false;
  if (r.deadline != time_point::max() && earliest(r, now) > r.deadline) {
    o = to_outcome(errc::deadline_unreachable);
  } else if (!finds_room_in_flow(flow, r.priority, evicted)) {
    o = to_outcome(errc::queue_full);
  } else if (supplies_.any_of() != nullptr && !finds_lane(w, r)) {
    o = to_outcome(errc::queue_full);
  }
  if (o != outcome::must_wait) {
    count_end(o);
    flows_->count_failure(flow);
    if (w.amounts_ != nullptr) drop_amounts(w);
    w.outcome_ = o;
    ready(w);
    if (evicted) pump(now);
    return;
  }
  flows_->push(w, flow, r.since);
  w.state_ = waiter::state::queued;
  if (r.deadline == time_point::max() || !time_->arm(*w.limit_, r.deadline)) w.limit_ = nullptr;
  if (w.holds_work_) hold_loop();
  // A new waiter behind another waiter of its flow makes no grant possible, so usually pump() is not called. With
  // ageing, pump() is called, because the request's `since` may make the new waiter old enough for a promotion. If
  // `delays_` is set, pump() is called, because a waiter may have to be shed.
  if (evicted || flows_->is_first(w) || queue_.ageing() != duration::max() || delays_) pump(now);
}

bool admission::finds_room_in_flow(std::uint32_t flow, int priority, bool& evicted) noexcept {
  if (flows_->flow_size(flow) >= flows_->queue_limit(flow)) {
    if (!make_room_in_flow(flow, priority)) return false;
    evicted = true;
  }
  if (flows_->size() >= queue_limit_) {
    if (!make_room(flow, priority)) return false;
    evicted = true;
  }
  return true;
}

bool admission::make_room_in_flow(std::uint32_t flow, int priority) noexcept {
  wait_node* victim = nullptr;
  if (on_overflow_ == overflow::evict_oldest) victim = flows_->oldest_of(flow);
  if (on_overflow_ == overflow::evict_least_important) {
    victim = flows_->youngest_of_least_important_of(flow);
    if (victim->priority <= priority) victim = nullptr;
  }
  if (victim == nullptr) return false;
  finish(static_cast<waiter&>(*victim), to_outcome(errc::evicted));
  return true;
}

void admission::leave_flow(waiter& w, outcome o) noexcept {
  flows_->remove(w);
  if (o != outcome::granted) flows_->count_failure(w.flow());
}

/// Returns the earliest time at which the new request can be granted. The estimate counts a waiter of another flow only
/// if its class is more important, and its flow has no ceiling. Such waiters are counted at most until ageing has
/// promoted the new request to the first class.
time_point admission::earliest_in_flow(const request& r, time_point now) const noexcept {
  if (supplies_.any_of() != nullptr) return earliest_of_any(r, now);
  const std::uint32_t flow = number_of(r);
  const auto with = [&r](std::uint64_t ahead) {
    return ahead > ~std::uint64_t{0} - r.tokens ? ~std::uint64_t{0} : ahead + r.tokens;
  };
  const fair_queue::ahead ahead = flows_->tokens_ahead(flow, r.priority, last_class_ahead(r));
  amounts_by_unit own{with(ahead.own)}, all{with(ahead.all)};
  if (units_ != nullptr) add_amounts_ahead(r, flow, own, all);
  const demand of_flow{own[0], &own};
  const time_point of_all = supplies_.rates().ready_at(now, {all[0], &all});
  const time_point of_own =
      std::max(supplies_.rates().ready_at(now, of_flow), flows_->ceiling(flow).earliest(now, of_flow));
  const time_point ready = std::max(of_own, std::min(of_all, flows_->first_class_at(now, r.priority)));
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

const wait_node* admission::first_in_flows(time_point now, const flow_ceiling*& held_by) noexcept {
  if (const wait_node* n = flows_->front(now)) return n;
  const wait_node* n = flows_->first_held();
  if (n != nullptr) held_by = &flows_->ceiling(n->flow());
  return n;
}

}  // namespace canigo::detail
