// The functions of fair_queue that record how long the waiters of flows wait, and search for waiters to shed.

#include "canigo/detail/queue/fair_queue.hpp"
#include "canigo/detail/queue/flow_keys.hpp"

namespace canigo::detail {

namespace {

constexpr unsigned most_classes = wait_queue::max_priorities;

}  // namespace

/// Records that a class of a flow meets its target delay now. Called if one of the class's waiters was granted within
/// the target delay, or if a waiter joins the empty class.
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

/// Updates whether a flow has an overdue waiter, or when the flow may get its first overdue waiter. This update is not
/// needed after a grant or after a waiter has left, because both events can only postpone that time.
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

}  // namespace canigo::detail
