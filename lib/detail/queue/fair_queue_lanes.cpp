// The functions of fair_queue for lanes. The waiters of one lane can be served by the same set of alternatives.

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_keys.hpp"
#include "canigo/detail/queue/queue_arithmetic.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <utility>

namespace canigo::detail {

std::uint32_t fair_queue::row_in_lane(std::uint32_t flow, const lane_key& key) const noexcept {
  std::uint32_t number = flow;
  do {
    if (lanes_[kin_[number].lane]->key == key) return number;
    number = kin_[number].next;
  } while (number != flow);
  return no_row;
}

/// Returns the index of a lane for `key`; a lane is the queue of all waiters with one key. The result is the lane that
/// has this key, otherwise a lane without waiters, otherwise a new lane. Returns most_lanes if all lanes are in use.
std::size_t fair_queue::lane_with(const lane_key& key) {
  std::size_t found = most_lanes;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i]->key == key) return i;
    if (lanes_[i]->size == 0 && found == most_lanes) found = i;
  }
  if (found == most_lanes) {
    if (lanes_.size() == most_lanes) return most_lanes;
    auto made = std::make_unique<lane>(heap{sooner{&arrivals_}}, classes_.size());
    made->ready.make_room_for(std::max(rows_.capacity(), std::size_t{1}));
    found = lanes_.size();
    lanes_.push_back(std::move(made));
  }
  lanes_[found]->key = key;
  return found;
}

bool fair_queue::make_lane(std::uint32_t flow, const lane_key& key) noexcept {
  if (row_in_lane(flow, key) != no_row) return true;
  try {
    const std::size_t found = lane_with(key);
    if (found == most_lanes) return false;
    // lane_with() may have given this key to a lane in which the flow already has a row (the list of its waiters)
    if (row_in_lane(flow, key) != no_row) return true;
    const std::uint32_t number = make_row();
    rows_[number].is_limited = rows_[flow].is_limited;
    set_weight_of_row(number, rows_[flow].weight);
    kin_[number] = {flow, kin_[flow].next, static_cast<std::uint16_t>(found)};
    kin_[flow].next = number;
    return true;
  } catch (const std::exception&) {  // no memory for a new row, or no free row number
    return false;
  }
}

bool fair_queue::may_lane_go() const noexcept {
  return std::ranges::any_of(lanes_, [](const auto& l) { return !l->ready.empty(); });
}

/// Returns the first waiter in the lanes that `open` allows: by class, then by the flow's tag (its virtual time), then
/// by arrival. If a lane was skipped earlier, a tag in this lane may be less than the virtual time of the class. Such a
/// tag is compared as if it were equal to the virtual time of the class.
wait_node* fair_queue::first_of_lanes(const open_lanes& open) const noexcept {
  std::uint32_t best = no_row;
  int best_class = 0;
  uint128 best_tag = 0;
  std::uint64_t best_arrival = 0;
  for (const auto& l : lanes_) {
    if (!open.has(l->key) || l->ready.empty()) continue;
    const uint128 key = l->ready.top();
    const std::uint32_t number = heap::number_of(key);
    const int of_class = class_of(key);
    const auto index = static_cast<std::size_t>(of_class);
    const uint128 tag = std::max(at(number, of_class).tag + l->moved_by[index], time_of_class(index));
    if (best != no_row && (of_class != best_class ? of_class > best_class
                           : tag != best_tag      ? tag > best_tag
                                                  : arrivals_[number] > best_arrival)) {
      continue;
    }
    best = number;
    best_class = of_class;
    best_tag = tag;
    best_arrival = arrivals_[number];
  }
  if (best == no_row) return nullptr;
  wait_node* first = rows_[best].front;
  for (std::uint32_t other = kin_[best].next; other != best; other = kin_[other].next) {
    const row& r = rows_[other];
    if (!r.is_ready || r.rank != best_class || !open.has(lanes_[kin_[other].lane]->key)) continue;
    if (r.front->arrived_before(*first)) first = r.front;
  }
  return first;
}

/// Called before row `number` is charged for a grant; a row is the list of a flow's waiters in one lane. If the row's
/// lane was passed over, the row's tag (its virtual time) may be behind the virtual time of the class. In that case the
/// function moves the tag up to the virtual time of the class. If the row is the first one of its lane, all tags of the
/// lane are moved by the same amount. So the flows of the lane keep their order.
void fair_queue::catch_up_lane(std::uint32_t number, int of_class) noexcept {
  lane& l = *lanes_[kin_[number].lane];
  uint128& moved = l.moved_by[static_cast<std::size_t>(of_class)];
  cell& c = at(number, of_class);
  const uint128 time = virtual_time(of_class);
  if (c.tag + moved >= time) return;
  (heap::number_of(l.ready.top()) == number ? moved : c.tag) += time - (c.tag + moved);
}

/// A flow has one row in each of its lanes: the list of its waiters there. When a grant charges row `number`, this
/// function also increases the tags (virtual times) of the flow's other rows. A tag that is behind the virtual time of
/// the class is moved up to the virtual time first.
void fair_queue::move_kin(std::uint32_t number, int of_class, std::uint64_t charge, uint128 time_before) noexcept {
  for (std::uint32_t other = kin_[number].next; other != number; other = kin_[other].next) {
    row_in_class(other, of_class, [&](cell& c) {
      const uint128 moved = moved_by(other, of_class);
      c.tag = std::max(c.tag, time_before - std::min(time_before, moved));
      move_tag(rows_[other], c, charge);
      ready_of(other).put(key_of(of_class, c.tag, other));
    });
  }
}

/// Returns the tag (virtual time) for a flow's new row; a row is the list of the flow's waiters in one lane. The tag is
/// the virtual time of the class or, if later, the latest tag of the flow's other rows.
uint128 fair_queue::time_of_kin(std::uint32_t number, int of_class) noexcept {
  uint128 time = virtual_time(of_class);
  if (keys_ == nullptr) return time;
  for (std::uint32_t other = kin_[number].next; other != number; other = kin_[other].next) {
    row_in_class(other, of_class, [&](cell& c) { time = std::max(time, c.tag + moved_by(other, of_class)); });
  }
  const uint128 moved = moved_by(number, of_class);
  return time - std::min(time, moved);
}

/// Updates all rows of a flow that has a ceiling (limits of its own); a row is the list of the flow's waiters in one
/// lane. The waiters of the flow get the ceiling's tokens in their order, in all lanes together. If a waiter must wait
/// for the ceiling, all later waiters of the flow must wait, too. Otherwise smaller requests of later waiters could
/// take the tokens for ever.
void fair_queue::look_at_flow(std::uint32_t flow) noexcept {
  const wait_node* held = nullptr;
  time_point until = time_point::max();
  const auto goes_before = [this](const wait_node& a, const wait_node& b) {
    const int class_a = effective_class(a), class_b = effective_class(b);
    return class_a != class_b ? class_a < class_b : a.arrived_before(b);
  };
  for_rows(flow, [&](std::uint32_t number) {
    look_at_front(number);
    const wait_node* const front = rows_[number].front;
    if (front == nullptr) return;
    const time_point ready = ceiling_ready(number);
    if (ready <= now_ || (held != nullptr && goes_before(*held, *front))) return;
    held = front;
    until = ready;
  });
  for_rows(flow, [&](std::uint32_t number) {
    const wait_node* const front = rows_[number].front;
    const bool is_held = front != nullptr && held != nullptr && !goes_before(*front, *held);
    place(number, is_held ? until : now_);
  });
}

bool fair_queue::may_pass(std::uint32_t flow, demand d) const noexcept {
  if (!rows_[flow].is_limited) return true;
  return !is_held(flow) && extras_[flow].ceiling.ready_at(now_, d, places_for(d.tokens)) <= now_;
}

/// Moves a waiter to the lane of its new key. Precondition: the waiter's key is already the new one.
void fair_queue::move_to_lane(wait_node& node, std::uint32_t number) noexcept {
  unlink(node, number);
  look_at(number);
  link(node);
  put_back_in_line(node, node.since_);
  const std::uint32_t now_in = row_of(node);
  if (delays_.sheds()) look_at_delays(now_in);
  look_at(now_in);
  end_of_step();
}

std::uint64_t fair_queue::amount_in_lane(std::uint32_t flow, const lane_key& key, int last,
                                         std::size_t unit) const noexcept {
  const std::uint32_t number = row_in_lane(flow, key);
  uint128 sum = 0;
  for (int c = 0; number != no_row && c <= last; ++c) {
    const std::size_t index = std::size_t{number} * classes_.size() + static_cast<std::size_t>(c);
    if (unit == 0) {
      sum += cells_[index].tokens;
    } else if (!others_.empty()) {
      sum += others_[index][unit - 1];
    }
  }
  return saturated(sum);
}

}  // namespace canigo::detail
