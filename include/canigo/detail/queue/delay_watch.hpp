#pragma once

#include "canigo/shedding.hpp"
#include "canigo/time.hpp"

#include <cstddef>
#include <vector>

namespace canigo::detail {

/// Which classes of a queue are overloaded, and which waits are too long there. See shedding_options.
///
/// `now` is always an argument. Threads: none; its owner holds a lock. Allocates: in the constructor.
class delay_watch {
 public:
  delay_watch(const shedding_options& o, int priorities)
      : options_{o}, met_at_(static_cast<std::size_t>(priorities), time_point::min()) {}

  /// One comes to a class in which nobody waits.
  void first_comes(int priority, time_point now) noexcept { met_at_[static_cast<std::size_t>(priority)] = now; }
  /// One of a class is granted, whose oldest waiter, perhaps that one, arrived at `oldest`.
  void one_goes(int priority, time_point oldest, time_point now) noexcept {
    if (now < saturating_add(oldest, options_.target)) first_comes(priority, now);
  }

  /// Whether for a whole interval nobody of a class has waited less than the target. Of a class with waiters.
  bool is_overloaded(int priority, time_point now) const noexcept { return now >= overloaded_at(priority); }
  /// When one of a class that arrived at `since` is to be shed, unless one of them waits less than the target before.
  time_point shed_at(int priority, time_point since) const noexcept;
  bool takes_newest(int priority, time_point now) const noexcept {
    return options_.newest_first && is_overloaded(priority, now);
  }
  bool takes_newest_at_times() const noexcept { return options_.newest_first; }

 private:
  time_point overloaded_at(int priority) const noexcept {
    return saturating_add(met_at_[static_cast<std::size_t>(priority)], options_.interval);
  }

  shedding_options options_;
  std::vector<time_point> met_at_;  // of each class: when the target was met last
};

}  // namespace canigo::detail
