#include "canigo/detail/queue/sublimits.hpp"

#include <cassert>
#include <utility>

namespace canigo::detail {

std::size_t sublimits::add(member m) {
  assert(members_.size() < most_sublimits);
  members_.push_back(std::move(m));
  return members_.size() - 1;
}

bool sublimits::fits(std::uint16_t i, demand d) const noexcept {
  for (std::size_t unit = 0; unit < units_; ++unit) {
    if (d.of(unit) > largest_request(i, unit)) return false;
  }
  return true;
}

std::uint64_t sublimits::largest_request(std::uint16_t i, std::size_t unit) const noexcept {
  return i == without_sublimit ? no_cap : members_[i].rates.largest_request(unit);
}

time_point sublimits::ready_at(std::uint16_t i, time_point now, demand d) const noexcept {
  if (i == without_sublimit) return now;
  const member& m = members_[i];
  return m.occupied >= m.capacity ? time_point::max() : m.rates.ready_at(now, d);
}

time_point sublimits::earliest(std::uint16_t i, time_point now, demand d) const noexcept {
  return i == without_sublimit ? now : members_[i].rates.ready_at(now, d);
}

wait_reason sublimits::what_binds(std::uint16_t i, time_point now, demand d) const noexcept {
  const member& m = members_[i];
  wait_reason why = m.rates.slowest(now, d);
  if (m.occupied >= m.capacity) why = {.binds = wait_reason::cause::concurrency};
  why.ceiling = std::exchange(why.binds, wait_reason::cause::sublimit);
  why.sublimit = i;
  return why;
}

void sublimits::take(std::uint16_t i, time_point as_of, demand d, time_point now) noexcept {
  if (i == without_sublimit) return;
  member& m = members_[i];
  m.rates.take(as_of, d, now);
  ++m.occupied;
  ++m.granted;
}

void sublimits::release(std::uint16_t i) noexcept {
  if (i != without_sublimit) --members_[i].occupied;
}

void sublimits::undo(std::uint16_t i, time_point now, demand d, time_point granted_at) noexcept {
  if (i == without_sublimit) return;
  members_[i].rates.refund(now, d, granted_at);
  release(i);
}

void sublimits::settle(std::uint16_t i, time_point now, std::size_t unit, std::uint64_t wanted, std::uint64_t used,
                       time_point granted_at) noexcept {
  if (i != without_sublimit) members_[i].rates.settle(now, unit, wanted, used, granted_at);
}

}  // namespace canigo::detail
