#include "canigo/detail/queue/fair_queue.hpp"

#include "canigo/detail/base/bits.hpp"
#include "canigo/detail/queue/queue_arithmetic.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <string>
#include <utility>

namespace canigo::detail {
namespace {

// A token at weight 1. Every weight up to 16 divides it. It is more than twice the product of the two greatest weights,
// so the rounding of two tags can't be seen in whole tokens.
constexpr std::uint64_t token_at_weight_1 = std::uint64_t{720'720} * 4096;
static_assert(token_at_weight_1 > 2 * std::uint64_t{fair_queue::most_weight} * fair_queue::most_weight);

constexpr unsigned tag_bits = 96;
constexpr uint128 tags_grow_to = uint128{1} << (tag_bits - 1);

constexpr unsigned most_classes = wait_queue::max_priorities;

constexpr std::uint64_t sign = std::uint64_t{1} << 63;

uint128 key_of(time_point t, std::uint32_t flow) noexcept {
  return uint128{static_cast<std::uint64_t>(t.time_since_epoch().count()) ^ sign} << 64 | flow;
}

time_point time_of(uint128 key) noexcept {
  return time_point{duration{static_cast<std::int64_t>(static_cast<std::uint64_t>(key >> 64) ^ sign)}};
}

uint128 key_of(int of_class, uint128 tag, std::uint32_t flow) noexcept {
  return uint128{static_cast<unsigned>(of_class)} << (tag_bits + flow_bits) | tag << flow_bits | flow;
}

int class_of(uint128 key) noexcept { return static_cast<int>(key >> (tag_bits + flow_bits)); }

std::size_t checked_priorities(int priorities) {
  if (priorities < 1 || priorities > wait_queue::max_priorities) {
    throw_invalid("fair_queue.priorities", priorities, "1 to 1024");
  }
  return static_cast<std::size_t>(priorities);
}

duration checked_ageing(duration ageing) {
  if (ageing < duration{1}) throw_invalid("fair_queue.ageing", ageing, "1ns or more");
  return ageing;
}

}  // namespace

fair_queue::fair_queue(int priorities, duration ageing, supplies::occupancy o, amounts_of_node amounts,
                       const delay_rule& delays)
    : ageing_{checked_ageing(ageing)},
      occupancy_{o},
      amounts_{amounts},
      delays_{delays},
      words_{(checked_priorities(priorities) + word_bits - 1) / word_bits},
      classes_(checked_priorities(priorities)),
      ready_{sooner{&arrivals_}},
      held_{{}},
      rises_{{}},
      late_{{}},
      overdue_{{}} {
  if (amounts_ != nullptr) free_others_.resize(classes_.size());
  add({});
}

// ---- flows ----------------------------------------------------------------------------------------------------------

std::uint32_t fair_queue::add(flow_terms terms) {
  auto waits = terms.times_waits ? std::make_unique<wait_histogram>() : nullptr;
  if (!free_.empty()) {
    const std::uint32_t flow = free_.back();
    free_.pop_back();
    set_terms(flow, std::move(terms), std::move(waits));
    return flow;
  }
  const std::size_t count = rows_.size();
  if (count > most_flows) throw_invalid("flows of one limit", count, "up to " + std::to_string(most_flows));
  if (count == rows_.capacity()) {
    const std::size_t room = std::max<std::size_t>(4, 2 * count);
    extras_.reserve(room);
    cells_.reserve(room * classes_.size());
    if (amounts_ != nullptr) others_.reserve(room * classes_.size());
    bits_.reserve(room * words_);
    arrivals_.reserve(room);
    free_.reserve(room);
    ready_.make_room_for(room);
    held_.make_room_for(room);
    rises_.make_room_for(room);
    if (delays_.sheds()) {
      late_.make_room_for(room);
      overdue_.make_room_for(room);
    }
    rows_.reserve(room);
  }
  rows_.emplace_back();
  extras_.emplace_back();
  cells_.resize(cells_.size() + classes_.size());
  if (amounts_ != nullptr) others_.resize(cells_.size());
  bits_.resize(bits_.size() + words_);
  arrivals_.push_back(0);
  const auto flow = static_cast<std::uint32_t>(count);
  set_terms(flow, std::move(terms), std::move(waits));
  return flow;
}

void fair_queue::set_terms(std::uint32_t flow, flow_terms terms, std::unique_ptr<wait_histogram> waits) noexcept {
  extra& x = extras_[flow];
  x.ceiling = flow_ceiling{rate_set{std::move(terms.rates), std::move(terms.units)}, terms.cap};
  x.queue_limit = terms.queue_limit;
  x.waits = std::move(waits);
  x.made = next_sequence_;
  rows_[flow].is_timed = x.waits != nullptr;
  rows_[flow].is_limited = x.ceiling.is_any();
  set_weight(flow, terms.weight);
}

void fair_queue::set_weight(std::uint32_t flow, std::uint32_t weight) noexcept {
  row& r = rows_[flow];
  if (r.weight == weight) return;
  r.weight = weight;
  r.step = token_at_weight_1 / weight;
  r.step_rest = static_cast<std::uint16_t>(token_at_weight_1 % weight);
  for (int c = 0; c < priorities(); ++c) at(flow, c).rest = 0;
}

void fair_queue::forget(std::uint32_t flow) noexcept {
  assert(rows_[flow].size == 0);
  rows_[flow].is_leaving = true;
  recycle_if_gone(flow);
}

void fair_queue::recycle_if_gone(std::uint32_t flow) noexcept {
  if (!rows_[flow].is_leaving || extras_[flow].ceiling.occupied() > 0) return;
  if (delays_.sheds()) {
    late_.erase(flow);
    overdue_.erase(flow);
  }
  for (int c = 0; c < priorities(); ++c) at(flow, c) = {};
  rows_[flow] = {};
  extras_[flow] = {};
  free_.push_back(flow);
}

void fair_queue::set_rate(std::uint32_t flow, std::size_t index, const rate& r) noexcept {
  extras_[flow].ceiling.rates()[index].set_rate(now_, r);
  look_at_ceiling(flow);
}

void fair_queue::set_cap(std::uint32_t flow, std::uint64_t cap) noexcept {
  flow_ceiling& ceiling = extras_[flow].ceiling;
  const bool was_limited = ceiling.is_any();
  ceiling.set_cap(cap);
  rows_[flow].is_limited = ceiling.is_any();
  if (was_limited != ceiling.is_any()) {
    for (int c = 0; c < priorities(); ++c) {
      class_state& s = classes_[static_cast<std::size_t>(c)];
      s.free_tokens = was_limited ? s.free_tokens + at(flow, c).tokens : s.free_tokens - at(flow, c).tokens;
      if (amounts_ == nullptr) continue;
      other_sums& sums = free_others_[static_cast<std::size_t>(c)];
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const uint128 here = others_at(flow, c)[i];
        sums[i] = was_limited ? sums[i] + here : sums[i] - here;
      }
    }
  }
  look_at_ceiling(flow);
}

std::uint64_t fair_queue::largest_request(std::uint32_t flow, std::size_t unit) const noexcept {
  const flow_ceiling& ceiling = extras_[flow].ceiling;
  const std::uint64_t by_rates = ceiling.rates().largest_request(unit);
  return occupancy_ == supplies::occupancy::tokens ? std::min(by_rates, ceiling.cap()) : by_rates;
}

void fair_queue::release(std::uint32_t flow, std::uint64_t places) noexcept {
  if (flow == nameless) return;
  extras_[flow].ceiling.release(places);
  look_at_ceiling(flow);
  recycle_if_gone(flow);
}

void fair_queue::settle(std::uint32_t flow, std::size_t unit, std::uint64_t wanted, std::uint64_t used) noexcept {
  extras_[flow].ceiling.rates().settle(now_, unit, wanted, used);
  look_at_ceiling(flow);
}

void fair_queue::undo(const wait_node& node) noexcept {
  // The number of a flow that has gone may be another's by now; one with places occupied has not gone.
  if (node.flow_ == nameless || rows_[node.flow_].weight == 0 || node.sequence_ < extras_[node.flow_].made) return;
  extras_[node.flow_].ceiling.rates().refund(now_, wanted_by(node));
  release(node.flow_, places_for(node.tokens));
}

// ---- waiters --------------------------------------------------------------------------------------------------------

void fair_queue::take_over(wait_queue& q, time_point now, const delay_watch* delays) noexcept {
  advance(now);
  next_sequence_ = q.next_sequence_;
  for (int c = 0; c < q.priorities(); ++c) {
    while (q.size(c) > 0) {
      wait_node& n = *q.classes_[static_cast<std::size_t>(c)].head;
      q.remove(n);
      n.flow_ = nameless;
      link(n);
    }
    if (delays != nullptr) at(nameless, c).met_at = delays->met_at(c);
  }
  if (delays != nullptr) look_at_delays(nameless);
  look_at(nameless);
  end_of_step();
}

void fair_queue::link(wait_node& node) noexcept {
  row& r = rows_[node.flow_];
  cell& c = at(node.flow_, node.priority);
  node.linked_ = true;
  node.next_ = nullptr;
  node.previous_ = c.tail;
  if (c.head != nullptr) {
    c.tail->next_ = &node;
  } else {
    c.head = &node;
    node.previous_ = nullptr;
    bits_of(node.flow_)[node.priority / word_bits] |= bit(node.priority);
    if (delays_.sheds()) meet_target(node.flow_, c);
  }
  c.tail = &node;
  c.tokens += node.tokens;
  class_state& s = classes_[node.priority];
  if (!r.is_limited) s.free_tokens += node.tokens;
  if (amounts_ != nullptr) count_others(node, true);
  ++s.size;
  ++r.size;
  ++size_;
}

void fair_queue::unlink(wait_node& node) noexcept {
  row& r = rows_[node.flow_];
  cell& c = at(node.flow_, node.priority);
  (node.previous_ != nullptr ? node.previous_->next_ : c.head) = node.next_;
  (node.next_ != nullptr ? node.next_->previous_ : c.tail) = node.previous_;
  if (c.head == nullptr) bits_of(node.flow_)[node.priority / word_bits] &= ~bit(node.priority);
  c.tokens -= node.tokens;
  class_state& s = classes_[node.priority];
  if (!r.is_limited) s.free_tokens -= node.tokens;
  if (amounts_ != nullptr) count_others(node, false);
  --s.size;
  --r.size;
  --size_;
  node.linked_ = false;
}

void fair_queue::count_others(const wait_node& node, bool comes) noexcept {
  const demand wanted = wanted_by(node);
  other_sums& here = others_at(node.flow_, node.priority);
  other_sums& of_class = free_others_[node.priority];
  const bool is_free = !rows_[node.flow_].is_limited;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const uint128 amount = wanted.of(i + 1);
    const uint128 change = comes ? amount : -amount;
    here[i] += change;
    if (is_free) of_class[i] += change;
  }
}

void fair_queue::push(wait_node& node, std::uint32_t flow) noexcept {
  assert(!node.linked_ && node.priority < classes_.size());
  node.flow_ = flow;
  node.sequence_ = next_sequence_++;
  node.since_ = now_;
  link(node);
  const row& r = rows_[flow];
  // Behind the first one it stays, as both rise. The one after that is looked for when the first one goes.
  if (r.size > 1 && node.priority >= effective_class(*r.front) && !delays_.takes_newest_at_times()) return;
  look_at(flow);
  end_of_step();
}

void fair_queue::remove(wait_node& node) noexcept {
  assert(node.linked_);
  const std::uint32_t flow = node.flow_;
  unlink(node);
  if (rows_[flow].front != &node && !delays_.takes_newest_at_times()) return;
  look_at(flow);
  end_of_step();
}

int fair_queue::next_class(std::uint32_t flow, unsigned from) const noexcept {
  const std::uint64_t* bits = bits_of(flow);
  for (std::size_t word = from / word_bits; word < words_; ++word) {
    const std::uint64_t first = word == from / word_bits ? bits[word] & ~(bit(from) - 1) : bits[word];
    if (first != 0) return static_cast<int>(word * word_bits + lowest(first));
  }
  return -1;
}

int fair_queue::last_class(std::uint32_t flow) const noexcept {
  const std::uint64_t* bits = bits_of(flow);
  for (std::size_t word = words_; word-- > 0;) {
    if (bits[word] != 0) return static_cast<int>(word * word_bits + std::bit_width(bits[word]) - 1);
  }
  return -1;
}

int fair_queue::effective_class(const wait_node& node) const noexcept {
  if (!ages()) return node.priority;
  const std::uint64_t steps = span(node.since_, now_) / static_cast<std::uint64_t>(ageing_.count());
  return node.priority - static_cast<int>(std::min<std::uint64_t>(steps, node.priority));
}

// The head of a class has waited longest in it, so the choice is among heads.
wait_node* fair_queue::first_of(std::uint32_t flow) const noexcept {
  int index = next_class(flow, 0);
  if (index < 0) return nullptr;
  wait_node* best = at(flow, index).head;
  if (!ages()) return candidate_of(best);
  int best_class = effective_class(*best);
  while ((index = next_class(flow, static_cast<unsigned>(index) + 1)) >= 0) {
    wait_node* head = at(flow, index).head;
    const int head_class = effective_class(*head);
    if (head_class > best_class || (head_class == best_class && head->sequence_ > best->sequence_)) continue;
    best = head;
    best_class = head_class;
  }
  return candidate_of(best);
}

/// The one that goes instead of the first of a class: while that is overloaded, perhaps the last.
wait_node* fair_queue::candidate_of(wait_node* head) const noexcept {
  if (!delays_.takes_newest_at_times()) return head;
  const cell& c = at(head->flow_, head->priority);
  return now_ >= delays_.overloaded_at(c.met_at) ? c.tail : head;
}

/// The class in which a flow competes: that to which the first of its class has risen.
int fair_queue::rank_of(const wait_node& front) const noexcept {
  return effective_class(delays_.takes_newest_at_times() ? *at(front.flow_, front.priority).head : front);
}

// Only heads are in the choice, so only their rises can change it.
time_point fair_queue::next_rise(std::uint32_t flow) const noexcept {
  time_point next = time_point::max();
  for (int index = next_class(flow, 0); index >= 0; index = next_class(flow, static_cast<unsigned>(index) + 1)) {
    const wait_node& head = *at(flow, index).head;
    if (effective_class(head) == 0) continue;
    const std::uint64_t into_step = span(head.since_, now_) % static_cast<std::uint64_t>(ageing_.count());
    next = std::min(next, saturating_add(now_, ageing_ - duration{static_cast<std::int64_t>(into_step)}));
  }
  return next;
}

// ---- who goes next --------------------------------------------------------------------------------------------------

void fair_queue::advance(time_point now) noexcept {
  now_ = std::max(now_, now);
  while (!held_.empty() && time_of(held_.top()) <= now_) {
    const std::uint32_t flow = heap::number_of(held_.top());
    extras_[flow].due = time_of(held_.top());
    extras_[flow].returned_at = now_;
    look_at(flow);
  }
  while (!rises_.empty() && time_of(rises_.top()) <= now_) look_at(heap::number_of(rises_.top()));
  while (!late_.empty() && time_of(late_.top()) <= now_) look_at_delays(heap::number_of(late_.top()));
  end_of_step();
}

time_point fair_queue::next_change() const noexcept {
  const time_point held = held_.empty() ? time_point::max() : time_of(held_.top());
  return rises_.empty() ? held : std::min(held, time_of(rises_.top()));
}

/// Puts a flow where it belongs: among those that may go, those that are held, or nowhere.
void fair_queue::look_at(std::uint32_t flow) noexcept {
  row& r = rows_[flow];
  r.front = first_of(flow);
  if (ages()) {
    const time_point rise = next_rise(flow);
    if (rise == time_point::max()) {
      rises_.erase(flow);
    } else {
      rises_.put(key_of(rise, flow));
    }
  }
  time_point ready = time_point::max();
  if (r.front != nullptr) {
    ready =
        r.is_limited ? extras_[flow].ceiling.ready_at(now_, wanted_by(*r.front), places_for(r.front->tokens)) : now_;
  }
  if (r.front == nullptr || ready > now_) {
    ready_.erase(flow);
    r.is_ready = false;
    if (ready == time_point::max()) {
      held_.erase(flow);
    } else {
      held_.put(key_of(ready, flow));
    }
    return;
  }
  held_.erase(flow);
  const int rank = rank_of(*r.front);
  cell& c = at(flow, rank);
  if (!r.is_ready || r.rank != rank) {
    const uint128 time = virtual_time(rank);
    if (c.tag < time) {
      c.tag = time;
      c.rest = 0;
    }
  }
  r.rank = static_cast<std::uint16_t>(rank);
  r.is_ready = true;
  arrivals_[flow] = r.front->sequence_;
  ready_.put(key_of(rank, c.tag, flow));
}

void fair_queue::look_at_ceiling(std::uint32_t flow) noexcept {
  if (rows_[flow].front == nullptr) return;
  look_at(flow);
  end_of_step();
}

/// A time in which somebody may go ends when nobody may.
void fair_queue::end_of_step() noexcept {
  if (!ready_.empty()) {
    is_busy_ = true;
  } else if (is_busy_) {
    is_busy_ = false;
    ++busy_period_;
  }
}

uint128& fair_queue::virtual_time(int of_class) noexcept {
  class_state& s = classes_[static_cast<std::size_t>(of_class)];
  if (s.busy_period != busy_period_) {
    s.busy_period = busy_period_;
    s.time = std::max(s.time, s.latest_finish);
  }
  return s.time;
}

void fair_queue::grant(wait_node& node, time_point caught_up, std::uint64_t charge, bool is_phantom) noexcept {
  assert(&node == front());
  const std::uint32_t flow = node.flow_;
  row& r = rows_[flow];
  const int of_class = r.rank;
  cell& c = at(flow, of_class);
  virtual_time(of_class) = c.tag;
  move_tag(r, c, charge);
  class_state& s = classes_[r.rank];
  s.latest_finish = std::max(s.latest_finish, c.tag);
  const bool grows = c.tag >= tags_grow_to;
  if (!is_phantom) {
    ++r.granted;
    r.tokens += node.tokens;
  }
  if (flow != nameless && (r.is_limited || occupancy_ != supplies::occupancy::none)) {
    // Tokens that a late wake-up finds due are taken as of when they were due, as those of the limit are.
    extra& x = extras_[flow];
    time_point as_of = now_;
    if (x.returned_at == now_) {
      as_of = x.ceiling.rates().ready_at(std::min(now_, std::max(x.due, caught_up)), wanted_by(node));
      x.due = as_of;
    }
    x.ceiling.take(as_of, wanted_by(node), places_for(node.tokens));
    if (is_phantom) x.ceiling.take_over(places_for(node.tokens));
  }
  if (delays_.sheds()) {
    cell& here = at(flow, node.priority);
    if (delays_.is_met(here.head->since_, now_)) meet_target(flow, here);
  }
  if (r.is_timed && !is_phantom) extras_[flow].waits->record(time_between(node.since_, now_));
  unlink(node);
  look_at(flow);
  end_of_step();
  if (grows) rebase(of_class);
}

void fair_queue::move_tag(row& r, cell& c, std::uint64_t charge) noexcept {
  if (charge == 1) {
    c.tag += r.step;
    c.rest += r.step_rest;
    if (c.rest < r.weight) return;
    c.rest -= r.weight;
    ++c.tag;
    return;
  }
  const uint128 all = uint128{charge} * token_at_weight_1 + c.rest;
  c.tag += all / r.weight;
  c.rest = static_cast<std::uint32_t>(all % r.weight);
}

/// Counts the tags of a class from its virtual time on. No tag is further ahead of that than one request.
void fair_queue::rebase(int of_class) noexcept {
  const uint128 base = std::exchange(virtual_time(of_class), 0);
  class_state& s = classes_[static_cast<std::size_t>(of_class)];
  s.latest_finish -= std::min(s.latest_finish, base);
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    cell& c = at(flow, of_class);
    c.tag -= std::min(c.tag, base);
  }
  ready_.for_each([&](uint128& key) {
    const std::uint32_t flow = heap::number_of(key);
    if (class_of(key) == of_class) key = key_of(of_class, at(flow, of_class).tag, flow);
  });
}

bool fair_queue::may_enter(std::uint32_t flow, demand d) const noexcept {
  const row& r = rows_[flow];
  return ready_.empty() && r.size == 0 &&
         (!r.is_limited || extras_[flow].ceiling.ready_at(now_, d, places_for(d.tokens)) <= now_);
}

void fair_queue::enter(std::uint32_t flow, demand d) noexcept {
  row& r = rows_[flow];
  ++r.granted;
  r.tokens += d.tokens;
  if (r.is_timed) extras_[flow].waits->record_at_once(1);
  if (flow != nameless) extras_[flow].ceiling.take(now_, d, places_for(d.tokens));
}

// ---- who is shed ----------------------------------------------------------------------------------------------------

/// One of a class has met the target, or is the first to come.
void fair_queue::meet_target(std::uint32_t flow, cell& c) noexcept {
  c.met_at = now_;
  watch_delays(flow, delays_.overloaded_at(now_));
}

void fair_queue::watch_delays(std::uint32_t flow, time_point at) noexcept {
  if (extras_[flow].late_at <= at) return;
  extras_[flow].late_at = at;
  late_.put(key_of(at, flow));
}

wait_node* fair_queue::overdue_of(std::uint32_t flow) const noexcept {
  for (int c = priorities() - 1; c >= 0; --c) {
    const cell& here = at(flow, c);
    if (here.head != nullptr && delays_.shed_at(here.met_at, here.head->since_) <= now_) return here.head;
  }
  return nullptr;
}

/// Puts a flow where it belongs: among those of which somebody is overdue, or may be at some time. Grants and those
/// that leave only put that off, so nobody looks then.
void fair_queue::look_at_delays(std::uint32_t flow) noexcept {
  late_.erase(flow);
  extras_[flow].late_at = time_point::max();
  for (int index = next_class(flow, 0); index >= 0; index = next_class(flow, static_cast<unsigned>(index) + 1)) {
    const cell& c = at(flow, index);
    const time_point overloaded = delays_.overloaded_at(c.met_at);
    const time_point shed = delays_.shed_at(c.met_at, c.head->since_);
    if (overloaded > now_) {
      watch_delays(flow, overloaded);
    } else if (shed > now_) {
      watch_delays(flow, shed);
    }
  }
  if (const wait_node* n = overdue_of(flow)) {
    overdue_.put(uint128{most_classes - n->priority} << (64 + flow_bits) | uint128{n->sequence_} << flow_bits | flow);
  } else {
    overdue_.erase(flow);
  }
  if (delays_.takes_newest_at_times()) look_at(flow);
}

wait_node* fair_queue::overdue() noexcept {
  while (!overdue_.empty()) {
    const uint128 key = overdue_.top();
    const std::uint32_t flow = heap::number_of(key);
    look_at_delays(flow);
    if (!overdue_.empty() && overdue_.top() == key) return overdue_of(flow);
  }
  return nullptr;
}

time_point fair_queue::next_overdue() const noexcept {
  return late_.empty() ? time_point::max() : time_of(late_.top());
}

// ---- shadow mode ----------------------------------------------------------------------------------------------------

void fair_queue::enter_beyond(std::uint32_t flow, std::uint64_t tokens) noexcept {
  row& r = rows_[flow];
  ++r.granted;
  r.tokens += tokens;
  if (r.is_timed) extras_[flow].waits->record_at_once(1);
  if (flow != nameless) extras_[flow].ceiling.occupy_beyond(places_for(tokens));
}

void fair_queue::go_beyond(const wait_node& node) noexcept {
  row& r = rows_[node.flow_];
  ++r.granted;
  r.tokens += node.tokens;
  extra& x = extras_[node.flow_];
  if (r.is_timed) x.waits->record(time_between(node.since_, now_));
  if (node.flow_ == nameless) return;
  x.ceiling.rates().charge(now_, wanted_by(node));
  x.ceiling.occupy_beyond(places_for(node.tokens));
}

void fair_queue::count_beyond() noexcept {
  for (extra& x : extras_) x.ceiling.count_beyond();
}

// ---- what is asked seldom -------------------------------------------------------------------------------------------

std::size_t fair_queue::may_go(time_point now, const wait_node* newcomer, std::size_t most) const noexcept {
  std::size_t n = 0;
  for (std::uint32_t flow = 0; flow < rows_.size() && n < most; ++flow) {
    const std::size_t all = rows_[flow].size + (newcomer != nullptr && newcomer->flow_ == flow ? 1u : 0u);
    if (all > 0) n += static_cast<std::size_t>(std::min<std::uint64_t>(all, extras_[flow].ceiling.allows(now)));
  }
  return std::min(n, most);
}

const wait_node* fair_queue::first_held() const noexcept {
  const wait_node* found = nullptr;
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    if (!is_held(flow)) continue;
    const wait_node& n = *rows_[flow].front;
    if (found == nullptr ||
        std::pair{effective_class(n), n.sequence_} < std::pair{effective_class(*found), found->sequence_}) {
      found = &n;
    }
  }
  return found;
}

wait_node* fair_queue::oldest_of(std::uint32_t flow) const noexcept {
  wait_node* found = nullptr;
  for (int index = next_class(flow, 0); index >= 0; index = next_class(flow, static_cast<unsigned>(index) + 1)) {
    if (wait_node* head = at(flow, index).head; !found || head->sequence_ < found->sequence_) found = head;
  }
  return found;
}

wait_node* fair_queue::oldest() const noexcept {
  wait_node* found = nullptr;
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    if (rows_[flow].size == 0) continue;
    if (wait_node* n = oldest_of(flow); !found || n->sequence_ < found->sequence_) found = n;
  }
  return found;
}

wait_node* fair_queue::youngest_of_least_important_of(std::uint32_t flow) const noexcept {
  const int last = last_class(flow);
  return last < 0 ? nullptr : at(flow, last).tail;
}

wait_node* fair_queue::youngest_of_least_important() const noexcept {
  wait_node* found = nullptr;
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    if (rows_[flow].size == 0) continue;
    wait_node* n = youngest_of_least_important_of(flow);
    if (!found || std::pair{n->priority, n->sequence_} > std::pair{found->priority, found->sequence_}) found = n;
  }
  return found;
}

fair_queue::ahead fair_queue::tokens_ahead(std::uint32_t flow, int priority) const noexcept {
  uint128 own = 0, others = 0;
  const bool is_limited = rows_[flow].is_limited;
  for (int c = 0; c <= priority; ++c) {
    const uint128 here = at(flow, c).tokens;
    if (c == priority && delays_.takes_newest_at_times()) break;  // then it makes nobody wait for its own class
    own += here;
    if (c < priority) others += classes_[static_cast<std::size_t>(c)].free_tokens - (is_limited ? 0 : here);
  }
  return {saturated(own), saturated(own + others)};
}

fair_queue::ahead fair_queue::amount_ahead(std::uint32_t flow, int priority, std::size_t unit) const noexcept {
  uint128 own = 0, others = 0;
  const bool is_limited = rows_[flow].is_limited;
  for (int c = 0; c <= priority; ++c) {
    const auto of_class = static_cast<std::size_t>(c);
    const uint128 here = others_[std::size_t{flow} * classes_.size() + of_class][unit - 1];
    if (c == priority && delays_.takes_newest_at_times()) break;
    own += here;
    if (c < priority) others += free_others_[of_class][unit - 1] - (is_limited ? 0 : here);
  }
  return {saturated(own), saturated(own + others)};
}

time_point fair_queue::first_class_at(time_point now, int priority) const noexcept {
  if (!ages()) return time_point::max();
  time_point at = now;
  for (int c = 0; c < priority && at != time_point::max(); ++c) at = saturating_add(at, ageing_);
  return at;
}

}  // namespace canigo::detail
