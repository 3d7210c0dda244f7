// The functions of fair_queue that look for information about waiters, and are rarely called.

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/queue_arithmetic.hpp"

#include <algorithm>
#include <utility>

namespace canigo::detail {

namespace {

bool matters_less(const wait_node& a, const wait_node& b) noexcept {
  return a.priority != b.priority ? a.priority > b.priority : b.arrived_before(a);
}

}  // namespace

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
    if (rows_[flow].front == nullptr || rows_[flow].is_ready) continue;
    const wait_node& n = *rows_[flow].front;
    if (found == nullptr || effective_class(n) < effective_class(*found) ||
        (effective_class(n) == effective_class(*found) && n.arrived_before(*found))) {
      found = &n;
    }
  }
  return found;
}

wait_node* fair_queue::oldest_of(std::uint32_t flow) const noexcept {
  wait_node* found = nullptr;
  for_rows(flow, [&](std::uint32_t row_number) {
    wait_node* const n = oldest_in(row_number);
    if (n != nullptr && (found == nullptr || n->arrived_before(*found))) found = n;
  });
  return found;
}

wait_node* fair_queue::oldest_in(std::uint32_t flow) const noexcept {
  wait_node* found = nullptr;
  for (int index = next_class(flow, 0); index >= 0; index = next_class(flow, static_cast<unsigned>(index) + 1)) {
    if (wait_node* head = at(flow, index).head; !found || head->arrived_before(*found)) found = head;
  }
  return found;
}

wait_node* fair_queue::oldest() const noexcept {
  wait_node* found = nullptr;
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    if (rows_[flow].size == 0) continue;
    if (wait_node* n = oldest_in(flow); !found || n->arrived_before(*found)) found = n;
  }
  return found;
}

wait_node* fair_queue::youngest_of_least_important_of(std::uint32_t flow) const noexcept {
  wait_node* found = nullptr;
  for_rows(flow, [&](std::uint32_t row_number) {
    wait_node* const n = last_in(row_number);
    if (n != nullptr && (found == nullptr || matters_less(*n, *found))) found = n;
  });
  return found;
}

wait_node* fair_queue::last_in(std::uint32_t flow) const noexcept {
  const int last = last_class(flow);
  return last < 0 ? nullptr : at(flow, last).tail;
}

wait_node* fair_queue::youngest_of_least_important() const noexcept {
  wait_node* found = nullptr;
  for (std::uint32_t flow = 0; flow < rows_.size(); ++flow) {
    if (rows_[flow].size == 0) continue;
    wait_node* n = last_in(flow);
    if (!found || matters_less(*n, *found)) found = n;
  }
  return found;
}

/// Whether flow `a` has more waiters per unit of weight than flow `b`. Flow `b` is counted as if it had `more_of_b`
/// additional waiters.
bool fair_queue::waits_more(std::uint32_t a, std::uint32_t b, std::uint32_t more_of_b) const noexcept {
  return flow_size(a) * rows_[b].weight > (flow_size(b) + more_of_b) * rows_[a].weight;
}

wait_node* fair_queue::displaced_by(std::uint32_t flow, int priority) const noexcept {
  wait_node* const least = youngest_of_least_important();
  if (least == nullptr || least->priority != priority) {
    return least != nullptr && least->priority > priority ? least : nullptr;
  }
  wait_node* found = nullptr;
  for (std::uint32_t f = 0; f < rows_.size(); ++f) {
    wait_node* const n = at(f, priority).tail;
    if (n == nullptr || n->flow_ == flow) continue;
    const bool is_as_full = found != nullptr && !waits_more(found->flow_, f, 0);
    if (found == nullptr || waits_more(f, found->flow_, 0) || (is_as_full && found->arrived_before(*n))) found = n;
  }
  return found != nullptr && waits_more(found->flow_, flow, 1) ? found : nullptr;
}

fair_queue::ahead fair_queue::tokens_ahead(std::uint32_t flow, int priority, int last) const noexcept {
  uint128 own = 0, others = 0;
  const bool is_limited = rows_[flow].is_limited;
  for (int c = 0; c <= last; ++c) {
    const uint128 here = at(flow, c).tokens;
    own += here;
    if (c < priority) others += classes_[static_cast<std::size_t>(c)].free_tokens - (is_limited ? 0 : here);
  }
  return {saturated(own), saturated(own + others)};
}

fair_queue::ahead fair_queue::amount_ahead(std::uint32_t flow, int priority, int last,
                                           std::size_t unit) const noexcept {
  uint128 own = 0, others = 0;
  const bool is_limited = rows_[flow].is_limited;
  for (int c = 0; c <= last; ++c) {
    const auto of_class = static_cast<std::size_t>(c);
    const uint128 here = others_[std::size_t{flow} * classes_.size() + of_class][unit - 1];
    own += here;
    if (c < priority) others += free_others_[of_class][unit - 1] - (is_limited ? 0 : here);
  }
  return {saturated(own), saturated(own + others)};
}

void fair_queue::add_classes_above(std::uint32_t flow, int priority, amounts_by_unit& to) const noexcept {
  if (priority == 0) return;
  const std::size_t units = amounts_ != nullptr ? to.size() : 1;
  for (std::size_t unit = 0; unit < units; ++unit) {
    const int last = priority - 1;
    const ahead a = unit == 0 ? tokens_ahead(flow, priority, last) : amount_ahead(flow, priority, last, unit);
    to[unit] = saturated(uint128{to[unit]} + (a.all - a.own));
  }
}

time_point fair_queue::first_class_at(time_point now, int priority) const noexcept {
  if (!ages()) return time_point::max();
  time_point at = now;
  for (int c = 0; c < priority && at != time_point::max(); ++c) at = saturating_add(at, ageing_);
  return at;
}

}  // namespace canigo::detail
