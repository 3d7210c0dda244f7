// The functions of fair_queue that add, change and remove flows, and that check the ceilings of flows.

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_keys.hpp"
#include "canigo/error.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace canigo::detail {

std::uint32_t fair_queue::add(flow_terms terms) {
  auto waits = terms.times_waits ? std::make_unique<wait_histogram>() : nullptr;
  const std::uint32_t flow = make_row();
  if (keys_ != nullptr) kin_[flow] = {flow, flow, 0};
  set_terms(flow, std::move(terms), std::move(waits));
  return flow;
}

/// Adds a row (the waiters of one flow with one key), and returns its number. If the function throws, nothing has
/// changed.
std::uint32_t fair_queue::make_row() {
  if (!free_.empty()) {
    const std::uint32_t number = free_.back();
    free_.pop_back();
    return number;
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
    if (keys_ != nullptr) kin_.reserve(room);
    for (const auto& l : lanes_) l->ready.make_room_for(room);
    rows_.reserve(room);
  }
  rows_.emplace_back();
  extras_.emplace_back();
  cells_.resize(cells_.size() + classes_.size());
  if (amounts_ != nullptr) others_.resize(cells_.size());
  bits_.resize(bits_.size() + words_);
  arrivals_.push_back(0);
  if (keys_ != nullptr) kin_.emplace_back();
  return static_cast<std::uint32_t>(count);
}

void fair_queue::set_terms(std::uint32_t flow, flow_terms terms, std::unique_ptr<wait_histogram> waits) noexcept {
  extra& x = extras_[flow];
  x.ceiling =
      flow_ceiling{rate_set{std::move(terms.rates), std::move(terms.units), std::move(terms.windows)}, terms.cap};
  x.queue_limit = terms.queue_limit;
  x.waits = std::move(waits);
  x.made = next_sequence_;
  rows_[flow].is_timed = x.waits != nullptr;
  rows_[flow].is_limited = x.ceiling.is_any();
  set_weight(flow, terms.weight);
}

void fair_queue::set_weight(std::uint32_t flow, std::uint32_t weight) noexcept {
  for_rows(flow, [=, this](std::uint32_t row_number) { set_weight_of_row(row_number, weight); });
}

void fair_queue::set_weight_of_row(std::uint32_t flow, std::uint32_t weight) noexcept {
  row& r = rows_[flow];
  if (r.weight == weight) return;
  r.weight = weight;
  r.step = token_at_weight_1 / weight;
  r.step_rest = static_cast<std::uint16_t>(token_at_weight_1 % weight);
  for (int c = 0; c < priorities(); ++c) at(flow, c).rest = 0;
}

void fair_queue::forget(std::uint32_t flow) noexcept {
  assert(flow_size(flow) == 0);
  rows_[flow].is_leaving = true;
  recycle_if_gone(flow);
}

void fair_queue::recycle_if_gone(std::uint32_t flow) noexcept {
  if (!rows_[flow].is_leaving || extras_[flow].ceiling.occupied() > 0) return;
  for_rows(flow, [this](std::uint32_t row_number) {
    if (delays_.sheds()) {
      late_.erase(row_number);
      overdue_.erase(row_number);
    }
    for (int c = 0; c < priorities(); ++c) at(row_number, c) = {};
    rows_[row_number] = {};
    extras_[row_number] = {};
    free_.push_back(row_number);
  });
}

void fair_queue::set_rate(std::uint32_t flow, std::size_t index, const rate& r) noexcept {
  extras_[flow].ceiling.rates().set_rate(index, now_, r);
  look_at_ceiling(flow);
}

void fair_queue::set_cap(std::uint32_t flow, std::uint64_t cap) noexcept {
  extras_[flow].ceiling.set_cap(cap);
  look_whether_limited(flow);
  look_at_ceiling(flow);
}

void fair_queue::pause_until(std::uint32_t flow, time_point t) noexcept {
  extras_[flow].ceiling.pause_until(t > now_ ? t : time_point::min());
  look_whether_limited(flow);
  look_at_ceiling(flow);
}

void fair_queue::end_pause_if_over(std::uint32_t flow) noexcept {
  flow_ceiling& ceiling = extras_[flow].ceiling;
  if (ceiling.paused_until() == time_point::min() || ceiling.paused_until() > now_) return;
  ceiling.pause_until(time_point::min());
  look_whether_limited(flow);
}

/// Call it when the flow may have got a ceiling (its first rate, cap or pause) or lost it. Updates the sums of the
/// amounts of all waiters in flows without a ceiling: this flow's waiters count only while the flow has no ceiling.
void fair_queue::look_whether_limited(std::uint32_t flow) noexcept {
  const bool is_limited = extras_[flow].ceiling.is_any();
  for_rows(flow, [=, this](std::uint32_t row_number) { note_whether_limited(row_number, is_limited); });
}

void fair_queue::note_whether_limited(std::uint32_t flow, bool is_limited) noexcept {
  const bool was_limited = std::exchange(rows_[flow].is_limited, is_limited);
  if (was_limited == is_limited) return;
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

void fair_queue::settle(std::uint32_t flow, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
                        time_point granted_at) noexcept {
  extras_[flow].ceiling.rates().settle(now_, unit, wanted, used, granted_at);
  look_at_ceiling(flow);
}

void fair_queue::undo(const wait_node& node, time_point granted_at) noexcept {
  // A flow without occupied slots may have been removed since the grant, and its number may belong to another flow now.
  // Then there is nothing to undo.
  if (node.flow_ == nameless || rows_[node.flow_].weight == 0 || node.sequence_ < extras_[node.flow_].made) return;
  extras_[node.flow_].ceiling.rates().refund(now_, wanted_by(node), granted_at);
  release(node.flow_, places_for(node.tokens));
}

}  // namespace canigo::detail
