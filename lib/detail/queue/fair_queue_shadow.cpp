// The functions of fair_queue for shadow mode, in which requests are granted even if the limit does not allow them.

#include "canigo/detail/queue/fair_queue.hpp"

namespace canigo::detail {

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

}  // namespace canigo::detail
