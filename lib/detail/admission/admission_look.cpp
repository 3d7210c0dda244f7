// The functions of admission that report statistics and estimates about the waiters.

#include "canigo/detail/admission/admission.hpp"
#include "canigo/detail/queue/fair_queue.hpp"

#include <algorithm>
#include <limits>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <utility>

namespace canigo::detail {

namespace {

std::uint64_t add(std::uint64_t a, std::uint64_t b) noexcept {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

void add_to(amounts_by_unit& sum, const demand& wanted) noexcept {
  for (std::size_t unit = 0; unit < sum.size(); ++unit) sum[unit] = add(sum[unit], wanted.of(unit));
}

}  // namespace

/// Records in the statistics which limit delays the first waiter from now on.
void admission::note_binding(time_point now) noexcept {
  const flow_ceiling* held_by = nullptr;
  const wait_node* const head = flows_ == nullptr ? queue_.front(now) : first_in_flows(now, held_by);
  if (head == nullptr) {
    binding_->note(now, wait_reason::cause::none);
  } else if (held_by != nullptr && now >= paused_until_) {
    binding_->note(now, wait_reason::cause::flow);
  } else if (now < paused_until_) {
    binding_->note(now, wait_reason::cause::paused);
  } else {
    const wait_reason why = what_binds(*head, now);
    binding_->note(now, why.binds, why.index);
  }
}

/// Returns the first waiters, at most `most`. The order among flows changes with every grant, so waiters of flows are
/// listed by class and arrival.
std::vector<const wait_node*> admission::first_waiters(time_point now, std::size_t most) const {
  if (flows_ == nullptr) return queue_.list(now, most);
  std::vector<const wait_node*> all;
  flows_->for_each([&all](const wait_node& n) { all.push_back(&n); });
  std::ranges::sort(all, [](const wait_node* a, const wait_node* b) {
    return a->priority != b->priority ? a->priority < b->priority : a->arrived_before(*b);
  });
  all.resize(std::min(all.size(), most));
  return all;
}

/// Describes a waiter as if all waiters before it had been granted. If a rate delays these earlier waiters, some of the
/// earlier waiters' calls may have ended before this waiter's grant. So the slots of the earlier waiters count only if
/// no rate delays them.
waiting_request admission::row_of(time_point now, const wait_node& n, const turn& t) const {
  const demand all{t.all[0], &t.all};
  time_point ready = supplies_.rates().ready_at(now, all);
  const std::uint64_t own_places = supplies_.places_for(n.tokens);
  wait_reason why = supplies_.what_binds(now, all, ready > now ? own_places : t.places);
  const bool has_lanes = supplies_.any_of() != nullptr;
  const lane_key key = has_lanes ? key_of_node(n) : lane_key{};
  if (has_lanes) {
    why = what_binds(n, now);
    ready = earliest_of_any(n.flow(), key, now, demand_of(n), all);
  }
  if (flows_ != nullptr) {
    const flow_ceiling& ceiling = flows_->ceiling(n.flow());
    const demand own{t.own[0], &t.own};
    const std::uint64_t places = std::max(ready, ceiling.earliest(now, own)) > now ? own_places : t.places;
    if (ceiling.ready_at(now, own, places) > ready) why = ceiling.what_binds(now, own, places);
    ready = std::max(ready, ceiling.earliest(now, own));
  }
  if (now < paused_until_) {
    why = {.binds = wait_reason::cause::paused, .until = paused_until_};
    if (paused_until_ != time_point::max()) ready = std::max(ready, paused_until_);
  }
  return {.tag = static_cast<const waiter&>(n).tag_,
          .priority = n.priority,
          .tokens = n.tokens,
          .since = n.since(),
          .estimate = ready == time_point::max() ? duration::max() : ready - now,
          .reason = why,
          .alternatives = alternatives_count() > 0 ? key.set : 0,
          .sublimit = key.sublimit == without_sublimit ? no_sublimit : int{key.sublimit}};
}

/// Returns the number of the queue in which a waiter waits. Without flows, all waiters are in one queue. With flows,
/// each flow has a queue. With flows and alternatives, each flow has a queue for each lane. A lane contains the waiters
/// that the same alternatives can serve.
std::uint64_t admission::line_of(const wait_node& n) const noexcept {
  if (flows_ == nullptr) return 0;
  return supplies_.any_of() != nullptr ? flows_->row_of(n) : n.flow();
}

/// Returns a sum of amounts for each waiter; the sums of waiters in class 0 are not used. A sum includes the waiter's
/// own amounts. It also includes the amounts of earlier waiters in the same queue (see line_of) and in the same or a
/// more important class. These earlier waiters are granted first, even if ageing promotes the waiter to a more
/// important class. With `takes_newest`, a sum includes only the waiter's own amounts.
std::vector<amounts_by_unit> admission::certain_turns(const std::vector<const wait_node*>& waiters,
                                                      bool takes_newest) const {
  std::vector<amounts_by_unit> turns(waiters.size());
  if (takes_newest) {
    for (std::size_t i = 0; i < waiters.size(); ++i) add_to(turns[i], demand_of(*waiters[i]));
    return turns;
  }
  std::vector<std::size_t> by_arrival(waiters.size());
  std::iota(by_arrival.begin(), by_arrival.end(), std::size_t{0});
  std::ranges::sort(by_arrival, [&](std::size_t x, std::size_t y) { return waiters[x]->arrived_before(*waiters[y]); });
  for (int c = 1; c < priorities_; ++c) {
    std::unordered_map<std::uint64_t, amounts_by_unit> sums;
    for (const std::size_t i : by_arrival) {
      const wait_node& n = *waiters[i];
      if (n.priority > c) continue;
      amounts_by_unit& sum = sums[line_of(n)];
      add_to(sum, demand_of(n));
      if (n.priority == c) turns[i] = sum;
    }
  }
  return turns;
}

std::vector<waiting_request> admission::list(std::size_t most) const {
  std::vector<waiting_request> rows;
  const std::lock_guard lock{mutex_};
  if (is_shadow()) return rows;
  const time_point now = clock();
  const bool takes_newest =
      flows_ != nullptr ? flows_->takes_newest_at_times() : delays_ && delays_->takes_newest_at_times();
  const bool some_rise = queue_.ageing() != duration::max();
  const std::vector<const wait_node*> waiters = first_waiters(now, most);
  std::vector<amounts_by_unit> certain;
  if (some_rise) certain = certain_turns(waiters, takes_newest);
  std::unordered_map<std::uint64_t, turn> turns;
  for (std::size_t i = 0; i < waiters.size(); ++i) {
    const wait_node& n = *waiters[i];
    turn& t = turns[line_of(n)];
    if (takes_newest) t = {};
    add_to(t.own, demand_of(n));
    t.places = add(t.places, supplies_.places_for(n.tokens));
    t.all = t.own;
    if (flows_ != nullptr && supplies_.any_of() == nullptr) flows_->add_classes_above(n.flow(), n.priority, t.all);
    waiting_request row = row_of(now, n, t);
    if (some_rise && n.priority > 0) {
      // `risen` describes the waiter after its promotion to a more important class. The promoted waiter may be granted
      // before waiters of that class that arrived later.
      const duration until_it_rises = saturating_add(n.since(), queue_.ageing()) - now;
      const waiting_request risen = row_of(now, n, {certain[i], certain[i], t.places});
      row.estimate = std::min(row.estimate, std::max(risen.estimate, until_it_rises));
    }
    rows.push_back(row);
  }
  return rows;
}

time_point admission::earliest(const request& r, time_point now) const noexcept {
  if (flows_ != nullptr) return earliest_in_flow(r, now);
  const std::uint64_t ahead = queue_.tokens_ahead(last_class_ahead(r));
  const std::uint64_t all = ahead > ~std::uint64_t{0} - r.tokens ? ~std::uint64_t{0} : ahead + r.tokens;
  const time_point ready = units_ == nullptr ? supplies_.rates().ready_at(now, all) : amounts_ready_at(now, r, all);
  // A pause without a time limit is ignored, because resume() may end it at any moment.
  return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
}

duration admission::estimate(const request& r) const {
  check(r);
  const time_point now = clock();
  const std::lock_guard lock{mutex_};
  const auto at = static_cast<std::uint64_t>(earliest(r, now).time_since_epoch().count());
  const std::uint64_t wait = at - static_cast<std::uint64_t>(now.time_since_epoch().count());
  return duration{static_cast<duration::rep>(std::min<std::uint64_t>(wait, duration::max().count()))};
}

void admission::read_counts(queue_stats& s) const noexcept {
  // In shadow mode, callers do not wait: the queue only measures how long their requests would have waited. So the
  // statistics do not count them as waiting.
  if (is_shadow()) return counts_.write(s);
  const auto read = [&s](const auto& queue) {
    s.waiting = queue.size();
    for (std::size_t i = 0; i < s.classes.size(); ++i) s.classes[i].waiting = queue.size(static_cast<int>(i));
  };
  flows_ == nullptr ? read(queue_) : read(*flows_);
  counts_.write(s);
}

std::size_t admission::waiting() const noexcept {
  const std::lock_guard lock{mutex_};
  if (is_shadow()) return 0;
  return flows_ == nullptr ? queue_.size() : flows_->size();
}

}  // namespace canigo::detail
