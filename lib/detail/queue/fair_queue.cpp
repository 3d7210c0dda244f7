#include "canigo/detail/queue/fair_queue.hpp"

#include "canigo/detail/base/bits.hpp"
#include "canigo/detail/queue/flow_keys.hpp"
#include "canigo/detail/queue/queue_arithmetic.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace canigo::detail {
namespace {

constexpr uint128 tags_grow_to = uint128{1} << (tag_bits - 1);

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
                       const delay_rule& delays, key_of_node keys)
    : ageing_{checked_ageing(ageing)},
      occupancy_{o},
      amounts_{amounts},
      delays_{delays},
      keys_{keys},
      words_{(checked_priorities(priorities) + word_bits - 1) / word_bits},
      classes_(checked_priorities(priorities)),
      ready_{sooner{&arrivals_}},
      held_{{}},
      rises_{{}},
      late_{{}},
      overdue_{{}} {
  if (amounts_ != nullptr) free_others_.resize(classes_.size());
  // Creates a lane (the queue of the waiters with one key) for an empty key. Each flow has its first row in this lane.
  // The first key that has waiters takes the lane over.
  if (keys_ != nullptr) lane_with({});
  add({});
}

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
  const std::uint32_t row_number = row_of(node);
  row& r = rows_[row_number];
  cell& c = at(row_number, node.priority);
  node.linked_ = true;
  node.next_ = nullptr;
  node.previous_ = c.tail;
  if (c.head != nullptr) {
    c.tail->next_ = &node;
  } else {
    c.head = &node;
    node.previous_ = nullptr;
    bits_of(row_number)[node.priority / word_bits] |= bit(node.priority);
    if (delays_.sheds()) meet_target(row_number, c);
  }
  c.tail = &node;
  c.tokens += node.tokens;
  class_state& s = classes_[node.priority];
  if (!r.is_limited) s.free_tokens += node.tokens;
  if (amounts_ != nullptr) count_others(node, row_number, true);
  if (keys_ != nullptr) ++lanes_[kin_[row_number].lane]->size;
  ++s.size;
  ++r.size;
  ++size_;
}

void fair_queue::unlink(wait_node& node, std::uint32_t row_number) noexcept {
  row& r = rows_[row_number];
  cell& c = at(row_number, node.priority);
  (node.previous_ != nullptr ? node.previous_->next_ : c.head) = node.next_;
  (node.next_ != nullptr ? node.next_->previous_ : c.tail) = node.previous_;
  if (c.head == nullptr) bits_of(row_number)[node.priority / word_bits] &= ~bit(node.priority);
  c.tokens -= node.tokens;
  class_state& s = classes_[node.priority];
  if (!r.is_limited) s.free_tokens -= node.tokens;
  if (amounts_ != nullptr) count_others(node, row_number, false);
  if (keys_ != nullptr) --lanes_[kin_[row_number].lane]->size;
  --s.size;
  --r.size;
  --size_;
  node.linked_ = false;
}

void fair_queue::count_others(const wait_node& node, std::uint32_t row_number, bool comes) noexcept {
  const demand wanted = wanted_by(node);
  other_sums& here = others_at(row_number, node.priority);
  other_sums& of_class = free_others_[node.priority];
  const bool is_free = !rows_[row_number].is_limited;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const uint128 amount = wanted.of(i + 1);
    const uint128 change = comes ? amount : -amount;
    here[i] += change;
    if (is_free) of_class[i] += change;
  }
}

/// Moves the last waiter of a class forward, to its position by `since`: the time when its request first arrived.
void fair_queue::put_back_in_line(wait_node& node, time_point since) noexcept {
  cell& c = at(row_of(node), node.priority);
  node.since_ = since;
  wait_node* after = &node;
  while (after != c.head && node.arrived_before(*after->previous_)) after = after->previous_;
  if (after == &node) return;
  c.tail = node.previous_;
  c.tail->next_ = nullptr;
  node.next_ = after;
  node.previous_ = after->previous_;
  (after == c.head ? c.head : after->previous_->next_) = &node;
  after->previous_ = &node;
}

void fair_queue::push(wait_node& node, std::uint32_t flow, time_point since) noexcept {
  assert(!node.linked_ && node.priority < classes_.size());
  node.flow_ = flow;
  node.sequence_ = next_sequence_++;
  node.since_ = now_;
  link(node);
  const std::uint32_t row_number = row_of(node);
  if (since < now_) [[unlikely]] {
    put_back_in_line(node, since);
    if (delays_.sheds()) look_at_delays(row_number);
    look_at(row_number);
    return end_of_step();
  }
  const row& r = rows_[row_number];
  // If the new waiter is behind the flow's first waiter, the new waiter stays behind, because ageing promotes both
  // waiters. So nothing is updated here. When the first waiter leaves, the queue searches for the flow's next first
  // waiter.
  if (r.size > 1 && node.priority >= effective_class(*r.front) && !delays_.takes_newest_at_times()) return;
  look_at(row_number);
  end_of_step();
}

void fair_queue::remove(wait_node& node) noexcept {
  assert(node.linked_);
  const std::uint32_t row_number = row_of(node);
  unlink(node, row_number);
  if (rows_[row_number].front != &node && !delays_.takes_newest_at_times()) return;
  look_at(row_number);
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

// Returns the first waiter of a flow. Within a class the first waiter has waited longest, so only the first waiters of
// the classes are compared.
wait_node* fair_queue::first_of(std::uint32_t flow) const noexcept {
  int index = next_class(flow, 0);
  if (index < 0) return nullptr;
  wait_node* best = at(flow, index).head;
  if (!ages()) return candidate_of(best);
  int best_class = effective_class(*best);
  while ((index = next_class(flow, static_cast<unsigned>(index) + 1)) >= 0) {
    wait_node* head = at(flow, index).head;
    const int head_class = effective_class(*head);
    if (head_class > best_class || (head_class == best_class && best->arrived_before(*head))) continue;
    best = head;
    best_class = head_class;
  }
  return candidate_of(best);
}

/// Returns the waiter of a class that may be granted next. Usually this is `head`, the first waiter of the class. With
/// shedding_options::newest_first, it is the last waiter of the class while the class is overloaded.
wait_node* fair_queue::candidate_of(wait_node* head) const noexcept {
  if (!delays_.takes_newest_at_times()) return head;
  const cell& c = at(row_of(*head), head->priority);
  return now_ >= delays_.overloaded_at(c.met_at) ? c.tail : head;
}

/// Returns the class in which a flow competes: the class to which the flow's first waiter has been promoted.
int fair_queue::rank_of(const wait_node& front) const noexcept {
  return effective_class(delays_.takes_newest_at_times() ? *at(row_of(front), front.priority).head : front);
}

// Returns when ageing next promotes the first waiter of a class. Other waiters are not checked, because only the first
// waiter of a class can become the first waiter of the flow.
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

void fair_queue::advance(time_point now) noexcept {
  now_ = std::max(now_, now);
  while (!held_.empty() && time_of(held_.top()) <= now_) {
    const std::uint32_t row_number = heap::number_of(held_.top());
    extra& x = extras_[flow_of(row_number)];
    x.due = time_of(held_.top());
    x.returned_at = now_;
    look_at(row_number);
  }
  while (!rises_.empty() && time_of(rises_.top()) <= now_) look_at(heap::number_of(rises_.top()));
  while (!late_.empty() && time_of(late_.top()) <= now_) look_at_delays(heap::number_of(late_.top()));
  end_of_step();
}

time_point fair_queue::next_change() const noexcept {
  const time_point held = held_.empty() ? time_point::max() : time_of(held_.top());
  return rises_.empty() ? held : std::min(held, time_of(rises_.top()));
}

/// Updates a row (the waiters of one flow with one key): the row becomes grantable or held by the flow's ceiling, or
/// has no waiters. If a flow with a ceiling has several rows, updates all of them together, because the order of their
/// waiters decides which row gets the ceiling's tokens.
void fair_queue::look_at(std::uint32_t row_number) noexcept {
  const std::uint32_t flow = flow_of(row_number);
  if (rows_[flow].is_limited) end_pause_if_over(flow);
  if (keys_ != nullptr && rows_[flow].is_limited && kin_[flow].next != flow) return look_at_flow(flow);
  look_at_front(row_number);
  row& r = rows_[row_number];
  time_point ready = time_point::max();
  if (r.front != nullptr) ready = r.is_limited ? ceiling_ready(row_number) : now_;
  place(row_number, ready);
}

time_point fair_queue::ceiling_ready(std::uint32_t row_number) const noexcept {
  const wait_node& n = *rows_[row_number].front;
  return extras_[flow_of(row_number)].ceiling.ready_at(now_, wanted_by(n), places_for(n.tokens));
}

/// Finds the first waiter of a row (the waiters of one flow with one key), and the time at which a promotion may make
/// another waiter the first one.
void fair_queue::look_at_front(std::uint32_t row_number) noexcept {
  rows_[row_number].front = first_of(row_number);
  if (!ages()) return;
  const time_point rise = next_rise(row_number);
  if (rise == time_point::max()) {
    rises_.erase(row_number);
  } else {
    rises_.put(key_of(rise, row_number));
  }
}

/// Marks a row (the waiters of one flow with one key) as grantable now, or as held back by the flow's ceiling. `ready`:
/// when the ceiling allows the row's first waiter.
void fair_queue::place(std::uint32_t row_number, time_point ready) noexcept {
  row& r = rows_[row_number];
  if (r.front == nullptr || ready > now_) {
    ready_of(row_number).erase(row_number);
    r.is_ready = false;
    if (r.front == nullptr || ready == time_point::max()) {
      held_.erase(row_number);
    } else {
      held_.put(key_of(ready, row_number));
    }
    return;
  }
  held_.erase(row_number);
  const int rank = rank_of(*r.front);
  cell& c = at(row_number, rank);
  if (!r.is_ready || r.rank != rank) {
    const uint128 time = keys_ == nullptr ? virtual_time(rank) : time_of_kin(row_number, rank);
    if (c.tag < time) {
      c.tag = time;
      c.rest = 0;
    }
  }
  r.rank = static_cast<std::uint16_t>(rank);
  r.is_ready = true;
  arrivals_[row_number] = r.front->sequence_;
  ready_of(row_number).put(key_of(rank, c.tag, row_number));
}

void fair_queue::look_at_ceiling(std::uint32_t flow) noexcept {
  for_rows(flow, [this](std::uint32_t row_number) {
    if (rows_[row_number].front != nullptr) look_at(row_number);
  });
  end_of_step();
}

/// Ends the busy period if no waiter is grantable any more. A busy period lasts as long as some waiter is grantable.
void fair_queue::end_of_step() noexcept {
  if (may_any_go()) {
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
  const std::uint32_t flow = node.flow_;
  const std::uint32_t row_number = row_of(node);
  row& r = rows_[row_number];
  assert(keys_ != nullptr ? &node == r.front && r.is_ready : &node == front());
  const int of_class = r.rank;
  cell& c = at(row_number, of_class);
  const uint128 time_before = virtual_time(of_class);
  if (keys_ != nullptr) catch_up_lane(row_number, of_class);
  const uint128 moved = moved_by(row_number, of_class);
  virtual_time(of_class) = c.tag + moved;
  move_tag(r, c, charge);
  if (keys_ != nullptr) move_kin(row_number, of_class, charge, time_before);
  class_state& s = classes_[r.rank];
  s.latest_finish = std::max(s.latest_finish, c.tag + moved);
  const bool grows = c.tag + moved >= tags_grow_to;
  if (!is_phantom) {
    ++rows_[flow].granted;
    rows_[flow].tokens += node.tokens;
  }
  if (flow != nameless && (r.is_limited || occupancy_ != supplies::occupancy::none)) {
    // If the owner of this queue was woken late, the ceiling's tokens count as taken when they became available, not
    // now. A limit treats the tokens of its own rates in the same way.
    extra& x = extras_[flow];
    time_point as_of = now_;
    if (x.returned_at == now_) {
      as_of = x.ceiling.rates().ready_at(std::min(now_, std::max(x.due, caught_up)), wanted_by(node));
      x.due = as_of;
    }
    x.ceiling.take(as_of, wanted_by(node), places_for(node.tokens), now_);
    if (is_phantom) x.ceiling.take_over(places_for(node.tokens));
  }
  if (delays_.sheds()) {
    cell& here = at(row_number, node.priority);
    if (delays_.is_met(here.head->since_, now_)) meet_target(row_number, here);
  }
  if (rows_[flow].is_timed && !is_phantom) extras_[flow].waits->record(time_between(node.since_, now_));
  unlink(node, row_number);
  look_at(row_number);
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

/// Sets the virtual time of a class to 0, and lowers the tags of its flows (the virtual times of their next grants) by
/// the same amount. So the tags become small: no tag is ahead of the virtual time by more than one request.
void fair_queue::rebase(int of_class) noexcept {
  const uint128 base = std::exchange(virtual_time(of_class), 0);
  class_state& s = classes_[static_cast<std::size_t>(of_class)];
  s.latest_finish -= std::min(s.latest_finish, base);
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    cell& c = at(flow, of_class);
    const uint128 own = base - std::min(base, moved_by(flow, of_class));
    c.tag -= std::min(c.tag, own);
  }
  const auto count_anew = [&](uint128& key) {
    const std::uint32_t flow = heap::number_of(key);
    if (class_of(key) == of_class) key = key_of(of_class, at(flow, of_class).tag, flow);
  };
  ready_.for_each(count_anew);
  for (const auto& l : lanes_) {
    uint128& moved = l->moved_by[static_cast<std::size_t>(of_class)];
    moved -= std::min(moved, base);
    l->ready.for_each(count_anew);
  }
}

bool fair_queue::may_enter(std::uint32_t flow, demand d) const noexcept {
  const row& r = rows_[flow];
  return !may_any_go() && r.size == 0 &&
         (!r.is_limited || extras_[flow].ceiling.ready_at(now_, d, places_for(d.tokens)) <= now_);
}

void fair_queue::enter(std::uint32_t flow, demand d) noexcept {
  row& r = rows_[flow];
  ++r.granted;
  r.tokens += d.tokens;
  if (r.is_timed) extras_[flow].waits->record_at_once(1);
  if (flow != nameless) extras_[flow].ceiling.take(now_, d, places_for(d.tokens), now_);
}

}  // namespace canigo::detail
