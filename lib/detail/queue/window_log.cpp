#include "canigo/detail/queue/window_log.hpp"

#include "canigo/time.hpp"

#include <algorithm>
#include <limits>

namespace canigo::detail {

window_log::window_log(const rate& r) : most_{0}, period_{0}, part_{0}, slots_(most_slots) {
  set_rate(time_point::min(), r);
}

void window_log::set_rate(time_point now, const rate& r) noexcept {
  while (has_left(now)) forget_first();
  most_ = static_cast<std::uint64_t>(r.tokens());
  period_ = r.period();
  part_ = duration{(period_.count() - 1) / parts + 1};
}

/// Returns when the tokens of a slot leave the window. The window includes both of its end points, so the tokens leave
/// one nanosecond after a whole period.
time_point window_log::leaves_at(const slot& s) const noexcept {
  return saturating_add(saturating_add(s.last, period_), duration{1});
}

std::uint64_t window_log::used_at(time_point now) const noexcept {
  std::uint64_t used = used_;
  for (std::size_t i = 0; i < size_ && leaves_at(at(i)) <= now; ++i) used -= at(i).tokens;
  return used;
}

time_point window_log::ready_at(time_point now, std::uint64_t tokens) const noexcept {
  // A request for more tokens than one window allows needs several windows. It waits until its remainder, `last`, fits,
  // and then for one period and one nanosecond per full window.
  const std::uint64_t windows = (tokens - 1) / most_;
  const std::uint64_t last = tokens - windows * most_;
  time_point ready = now;
  std::uint64_t used = used_;
  for (std::size_t i = 0; i < size_ && !fits(used, last); ++i) {
    ready = std::max(ready, leaves_at(at(i)));
    used -= at(i).tokens;
  }
  const int128 more = int128{windows} * (int128{period_.count()} + 1);
  if (more > std::numeric_limits<std::int64_t>::max()) return time_point::max();
  return saturating_add(ready, duration{static_cast<std::int64_t>(more)});
}

void window_log::pass(time_point now, std::uint64_t tokens, token_bucket& b) noexcept {
  for (; has_left(now); forget_first()) {
    const time_point then = leaves_at(at(0));
    const auto most = std::max(room_beside(used_), static_cast<std::int64_t>(tokens));
    if (const std::int64_t there = b.available(then); there > most) {
      b.charge(then, static_cast<std::uint64_t>(there - most));
    }
  }
}

void window_log::forget_first() noexcept {
  forgotten_ = at(0).last;
  used_ -= at(0).tokens;
  first_ = (first_ + 1) % most_slots;
  --size_;
}

void window_log::add(time_point now, std::uint64_t tokens) noexcept {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  while (size_ == most_slots && has_left(now)) forget_first();
  tokens = std::min(tokens, most - used_);
  const auto part_of = [this](time_point t) { return t.time_since_epoch() / part_; };
  const bool is_new = size_ == 0 || (part_of(at(size_ - 1).last) < part_of(now) && size_ < most_slots);
  if (is_new) {
    at(size_) = {std::max(now, forgotten_), 0};
    ++size_;
  }
  slot& s = at(size_ - 1);
  s.last = std::max(s.last, now);
  s.tokens += tokens;
  used_ += tokens;
}

/// Gives back tokens of a grant made at `granted_at`, to the slot that contains the grant. If that slot has too few
/// tokens, the remaining tokens are given back to earlier slots, which leave the window sooner.
void window_log::give_back(time_point granted_at, std::uint64_t tokens) noexcept {
  if (granted_at <= forgotten_) return;
  std::size_t i = 0;
  while (i < size_ && at(i).last < granted_at) ++i;
  for (i = std::min(i + 1, size_); i > 0 && tokens > 0; --i) {
    slot& s = at(i - 1);
    const std::uint64_t less = std::min(s.tokens, tokens);
    s.tokens -= less;
    used_ -= less;
    tokens -= less;
  }
}

}  // namespace canigo::detail
