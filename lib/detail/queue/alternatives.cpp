#include "canigo/detail/queue/alternatives.hpp"

#include <algorithm>
#include <utility>

namespace canigo::detail {

alternatives::alternatives(std::vector<member> members, std::size_t units, bool is_hidden)
    : members_{std::move(members)}, units_{units}, is_hidden_{is_hidden}, largest_(members_.size()) {
  look_at_sizes();
}

bool alternatives::look_at_sizes() noexcept {
  bool has_changed = false;
  std::uint64_t not_closed = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!members_[i].is_closed) not_closed |= std::uint64_t{1} << i;
    for (std::size_t unit = 0; unit < units_; ++unit) {
      const std::uint64_t now = members_[i].rates.largest_request(unit);
      has_changed = std::exchange(largest_[i][unit], now) != now || has_changed;
    }
  }
  return std::exchange(not_closed_, not_closed) != not_closed || has_changed;
}

std::uint64_t alternatives::that_fit(std::uint64_t set, demand d) const noexcept {
  std::uint64_t result = 0;
  for_each_in_set(set & not_closed_, [&](std::size_t i) {
    for (std::size_t unit = 0; unit < units_; ++unit) {
      if (d.of(unit) > largest_[i][unit]) return;
    }
    result |= std::uint64_t{1} << i;
  });
  return result;
}

std::uint64_t alternatives::largest_request(std::uint64_t set, std::size_t unit) const noexcept {
  std::uint64_t largest = 0;
  for_each_in_set(set & not_closed_, [&](std::size_t i) { largest = std::max(largest, largest_[i][unit]); });
  return largest;
}

time_point alternatives::ready_at(std::size_t i, time_point now, demand d) const noexcept {
  const member& m = members_[i];
  if (m.occupied >= m.capacity || m.is_closed) return time_point::max();
  return std::max(m.rates.ready_at(now, d), m.paused_until);
}

/// Compares the free part of the alternative `m` with `other`. For example, a rate with 3 available tokens and a burst
/// of 10 has a free part of 3/10. The free part of `m` is the smallest one of its cap and of the rates that the request
/// needs. If this free part is larger than `other`, stores it in `other` and returns true.
bool alternatives::has_more_room(const member& m, time_point now, demand d, room& other) const noexcept {
  room least;
  const auto look = [&](const room& here) {
    if (here.is_less_than(least)) least = here;
    return other.is_less_than(here);
  };
  if (m.capacity != no_cap && !look({m.capacity - m.occupied, m.capacity})) return false;
  for (std::size_t rate = 0; rate < m.rates.size(); ++rate) {
    if (d.of(m.rates.unit_of(rate)) == 0) continue;
    if (!look({static_cast<std::uint64_t>(m.rates.available(rate, now)), m.rates[rate].burst()})) return false;
  }
  if (!other.is_less_than(least)) return false;
  other = least;
  return true;
}

alternatives::choice alternatives::choose(std::uint64_t set, time_point as_of, time_point now,
                                          demand d) const noexcept {
  choice best;
  room of_best;
  bool knows_room = false;
  for_each_in_set(set, [&](std::size_t i) {
    const member& m = members_[i];
    const bool has_best = best.index != no_alternative;
    if (has_best && m.prefer > members_[best.index].prefer) return;
    const bool is_equal = has_best && m.prefer == members_[best.index].prefer;
    if (is_equal && !std::exchange(knows_room, true)) {
      of_best = {0, 1};
      (void)has_more_room(members_[best.index], now, d, of_best);
    }
    if (is_equal && of_best.is_all()) return;
    const time_point ready = ready_at(i, as_of, d);
    if (ready > now) {
      if (!has_best) best.ready = std::min(best.ready, ready);
      return;
    }
    if (is_equal && !has_more_room(m, now, d, of_best)) return;
    knows_room = is_equal;
    best = {i, ready};
  });
  return best;
}

void alternatives::take(std::size_t i, time_point as_of, demand d, time_point now) noexcept {
  member& m = members_[i];
  m.rates.take(as_of, d, now);
  ++m.occupied;
  ++m.granted;
}

void alternatives::occupy(std::size_t i, time_point now, demand d) noexcept {
  member& m = members_[i];
  m.rates.charge(now, d);
  ++m.occupied;
  ++m.granted;
}

void alternatives::undo(std::size_t i, time_point now, demand d, time_point granted_at) noexcept {
  members_[i].rates.refund(now, d, granted_at);
  release(i);
}

/// Returns a lower bound on the time at which the alternatives together can have granted the amount `all`.
///
/// This function divides `all` into one part per alternative. When `all` is granted, at least one alternative has
/// granted its part or more. So the earliest time at which any alternative can grant its part is a lower bound. Any
/// division gives such a bound; a division by the speed of the rates gives a close one.
time_point alternatives::earliest_of_unit(std::uint64_t set, time_point now, std::size_t unit,
                                          std::uint64_t all) const noexcept {
  const auto speed = [&](std::size_t i) {
    double least = std::numeric_limits<double>::infinity();
    const rate_set& rates = members_[i].rates;
    for (std::size_t r = 0; r < rates.size(); ++r) {
      if (rates.unit_of(r) != unit) continue;
      const rate of_rate = rates[r].rate();
      least = std::min(least, static_cast<double>(of_rate.tokens()) / static_cast<double>(of_rate.period().count()));
    }
    return least;
  };
  double sum = 0;
  for_each_in_set(set, [&](std::size_t i) { sum += speed(i); });
  // if one of the alternatives has no rate for this unit, the unit causes no wait
  if (sum == std::numeric_limits<double>::infinity()) return now;
  std::uint64_t left = all;
  time_point earliest = time_point::max();
  for_each_in_set(set, [&](std::size_t i) {
    const bool is_last = set >> i == 1;
    const double part = static_cast<double>(all) * (speed(i) / sum);
    const std::uint64_t tokens = is_last || part >= static_cast<double>(left) ? left : static_cast<std::uint64_t>(part);
    left -= tokens;
    amounts_by_unit wanted{};
    wanted[unit] = tokens;
    earliest = std::min(earliest, members_[i].rates.ready_at(now, {wanted[0], &wanted}));
  });
  return earliest;
}

time_point alternatives::earliest(std::uint64_t set, time_point now, demand own, demand all) const noexcept {
  time_point first = time_point::max();
  for_each_in_set(set, [&](std::size_t i) {
    const member& m = members_[i];
    const time_point paused = m.paused_until == time_point::max() ? now : m.paused_until;
    first = std::min(first, std::max(m.rates.ready_at(now, own), paused));
  });
  for (std::size_t unit = 0; unit < units_; ++unit) {
    if (all.of(unit) > own.of(unit)) first = std::max(first, earliest_of_unit(set, now, unit, all.of(unit)));
  }
  return first;
}

wait_reason alternatives::what_binds(std::uint64_t set, time_point now, demand d) const noexcept {
  wait_reason why{.binds = wait_reason::cause::alternatives};
  for_each_in_set(set, [&](std::size_t i) {
    const time_point ready = ready_at(i, now, d);
    if (why.alternative != no_alternative && ready >= why.until) return;
    const member& m = members_[i];
    const wait_reason last = m.rates.slowest(now, d);
    why.alternative = i;
    why.index = 0;
    why.until = ready;
    if (m.paused_until > std::max(now, last.until)) {
      why.ceiling = wait_reason::cause::paused;
    } else if (m.occupied >= m.capacity) {
      why.ceiling = wait_reason::cause::concurrency;
    } else {
      why.ceiling = last.binds;
      why.index = last.index;
    }
  });
  return why;
}

}  // namespace canigo::detail
