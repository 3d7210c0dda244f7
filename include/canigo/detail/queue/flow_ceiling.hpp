#pragma once

#include "canigo/detail/queue/rate_set.hpp"
#include "canigo/detail/queue/units.hpp"
#include "canigo/queue_stats.hpp"
#include "canigo/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

namespace canigo::detail {

/// The ceiling of a flow: its own rates, its own cap on slots, and its pause. They hold back the flow's requests even
/// if the limit that the flows share has free capacity.
///
/// Threads: not thread-safe; its owner must hold a lock.
class flow_ceiling {
 public:
  static constexpr std::uint64_t no_cap = std::numeric_limits<std::uint64_t>::max();

  flow_ceiling() = default;
  flow_ceiling(rate_set rates, std::uint64_t cap) noexcept : rates_{std::move(rates)}, cap_{cap} {}

  /// Whether the flow has a rate, a cap or a pause, so that the ceiling may hold it back.
  bool is_any() const noexcept { return cap_ != no_cap || !rates_.empty() || paused_until_ != time_point::min(); }

  bool has_room_for(std::uint64_t places) const noexcept { return places <= cap_ && occupied_ <= cap_ - places; }
  /// How many requests, each for one token and one slot, the ceiling allows at `now`.
  std::uint64_t allows(time_point now) const noexcept {
    if (now < paused_until_) return 0;
    std::uint64_t n = occupied_ < cap_ ? cap_ - occupied_ : 0;
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      n = std::min(n, static_cast<std::uint64_t>(std::max(rates_.available(i, now), std::int64_t{0})));
    }
    return n;
  }
  /// The instant from which the ceiling allows this demand with this number of slots. time_point::max() if slots must
  /// be released first, or if the flow is paused without a time limit.
  time_point ready_at(time_point now, demand d, std::uint64_t places) const noexcept {
    return has_room_for(places) ? std::max(rates_.ready_at(now, d), paused_until_) : time_point::max();
  }
  /// A lower bound on the instant at which the ceiling allows this demand. Ignores the cap, because a slot may be
  /// released at any moment. Ignores a pause that lasts until resume(), because resume() may be called at any moment.
  time_point earliest(time_point now, demand d) const noexcept {
    const time_point ready = rates_.ready_at(now, d);
    return paused_until_ == time_point::max() ? ready : std::max(ready, paused_until_);
  }
  /// The cause that holds back a request which the ceiling does not allow; if there are several causes, the one that
  /// ends last.
  wait_reason what_binds(time_point now, demand d, std::uint64_t places) const noexcept {
    wait_reason why = rates_.slowest(now, d);
    if (!has_room_for(places)) {
      why = {.binds = wait_reason::cause::concurrency};
    } else if (paused_until_ > std::max(now, why.until)) {
      why = {.binds = wait_reason::cause::paused, .until = paused_until_};
    }
    why.ceiling = std::exchange(why.binds, wait_reason::cause::flow);
    return why;
  }

  /// Takes a demand at `now`. The rates count its tokens as taken at `as_of`, when the ceiling allowed the demand.
  void take(time_point as_of, demand d, std::uint64_t places, time_point now) noexcept {
    rates_.take(as_of, d, now);
    occupied_ += places;
  }
  /// Releases slots. In shadow mode, slots beyond the cap are counted in `beyond_`, not in `occupied_`. If more slots
  /// are released than `occupied_` counts, the rest is subtracted from `beyond_`.
  void release(std::uint64_t places) noexcept {
    occupied_ -= places;
    if (static_cast<std::int64_t>(occupied_) < 0) beyond_ += std::exchange(occupied_, 0);
  }
  void occupy_beyond(std::uint64_t places) noexcept { beyond_ += places; }
  /// Call it after take() for a shadow waiter. The waiter already holds its slots beyond the cap, and take() has
  /// counted them again. This function makes them count only once.
  void take_over(std::uint64_t places) noexcept {
    const std::uint64_t out = std::min(places, beyond_);
    beyond_ -= out;
    occupied_ -= places - out;
  }
  void count_beyond() noexcept { occupied_ += std::exchange(beyond_, 0); }

  rate_set& rates() noexcept { return rates_; }
  const rate_set& rates() const noexcept { return rates_; }
  std::uint64_t cap() const noexcept { return cap_; }
  void set_cap(std::uint64_t cap) noexcept { cap_ = cap; }
  time_point paused_until() const noexcept { return paused_until_; }
  void pause_until(time_point t) noexcept { paused_until_ = t; }
  std::uint64_t occupied() const noexcept { return occupied_ + beyond_; }

 private:
  rate_set rates_;
  std::uint64_t cap_ = no_cap;
  std::uint64_t occupied_ = 0;
  std::uint64_t beyond_ = 0;  // slots that are held beyond the cap in shadow mode; `occupied_` does not count them
  time_point paused_until_ = time_point::min();
};

}  // namespace canigo::detail
